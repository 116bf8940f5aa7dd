#!/usr/bin/python3 -I
"""The steps around MkDocs in tools/docs.sh:

    tools/site.py pages DIRECTORY       writes the input of MkDocs; checks links, and that code fits the site
    tools/site.py check DIRECTORY       checks what MkDocs has made
    tools/site.py versions DIRECTORY    writes versions.json and index.html for the versions in a directory

The pages are those of docs/, the README, the changelog, and the examples. Their links lead to pages of the site, their lists are
written as Python-Markdown needs them, and the reference is filled in (tools/reference.lua). Problems go to standard error, and the
exit status is 1 if there are any.
"""

import html
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
import urllib.parse
from posixpath import dirname, join, normpath, relpath

# Sources outside of docs/ -> pages. Other Markdown files of the project's directory are in project/, and in no navigation.
PAGES = {
    "README.md": "index.md",
    "README.zh-CN.md": "zh/index.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples/index.md",
    "bench/RESULTS.md": "measurements.md",
    "spec/campaign/RESULTS.md": "campaign.md",
    "spec/TRAPS.md": "traps.md",
}

# How many columns of code fit a page at 1280 pixels.
COLUMNS = 88

# The languages of files that become pages, where the end of the name is none.
LANGUAGES = {"conf": "nginx", "service": "ini", "timer": "ini", "cron": "bash"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def files(pattern):
    """Returns the files that are in git or could be added to it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", pattern]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [path for path in listed.splitlines() if os.path.isfile(path)]


# Markdown ####################################################################################################################


def lines_of(text):
    """Yields each line of a page, and the first line of the block of code to which it belongs; "" for that line, and for prose."""
    opening = ""
    for line in text.splitlines():
        yield line, opening
        fence = re.match(r"\s*(```+)", line)
        if fence and not opening:
            opening = line
        elif fence and line.strip() == re.match(r"\s*(`+)", opening)[1]:
            opening = ""


def outside_code(text, change):
    """Changes each stretch of a page that is no block of code."""
    parts = []
    for is_code, lines in itertools.groupby(lines_of(text), lambda item: item[1] != ""):
        part = "".join(line + "\n" for line, _ in lines)
        parts.append(part if is_code else change(part))
    return "".join(parts)


def lists(text):
    """Returns a page with lists as Python-Markdown needs them: after a blank line, and indented by four columns for each level."""
    written, before = [], ""
    starts, shift = [], 0  # the columns in which the texts of the lists around a line begin; how far it is moved
    for line, is_code in lines_of(text):
        rest = line.lstrip(" ")
        depth, placed = len(line) - len(rest), line
        marker = None if is_code else re.match(r"[-*] +|\d+\. +", rest)
        if rest and depth == 0 and not is_code and not marker and (before == "" or re.match(" *```", before)):
            starts = []
        if is_code:
            placed = " " * max(0, depth + shift) + rest
        elif rest == "":
            placed = ""
        elif marker or before == "" or depth > 0:
            starts = list(itertools.takewhile(lambda start: depth >= start, starts))
            if marker and not starts and not re.match(r" |[-*] |\d+\. |$", before):
                written.append("")
            shift = 4 * len(starts) - (starts[-1] if starts else 0)
            placed = " " * (depth + shift) + rest
            if marker:
                starts.append(depth + len(marker[0]))
        written.append(placed)
        before = placed
    return "\n".join(written) + "\n"


def columns_of(text):
    """Returns how many columns a text takes. Characters of Chinese, and full-width signs, take two."""
    return sum(2 if unicodedata.east_asian_width(character) in ("W", "F") else 1 for character in text)


def wide(source, text):
    """Returns the lines of a page's code that are too long. What programs print ("text") is as it is."""
    return [f"{source}:{number}: code of {columns_of(line)} columns, more than {COLUMNS}"
            for number, (line, opening) in enumerate(lines_of(text), 1)
            if opening and not opening.strip().startswith("```text") and columns_of(line) > COLUMNS]


# The pages ###################################################################################################################


def pages(directory):
    """Writes the pages into a directory."""
    problems, sources, copied, code = [], {}, {}, {}  # files of the project -> files of the site
    for path in files(":(glob)*.md"):
        sources[path] = "project/" + path
    for path in files("docs"):
        if path.endswith(".md"):
            sources[path] = path.removeprefix("docs/")
        elif not path.startswith("docs/theme/") and path != "docs/mkdocs.yml":
            copied[path] = path.removeprefix("docs/")
    sources.update(PAGES)

    def page_of(path):
        """Returns the file of the site for a file of the project; a program, or another text, becomes a page."""
        if path not in sources and path not in copied and os.path.isfile(path):
            code[path] = path + ".md"
        return sources.get(path) or copied.get(path) or code.get(path)

    def linked(source, text):
        """Returns a page with links to files of the site. Links that begin with "/" are from the project's directory on."""

        def change(target):
            if re.match("[A-Za-z]+:|#", target):
                return target
            path, rest = re.match("([^#]*)(.*)", target).groups()
            page = page_of(normpath(join("/" + dirname(source), path)).lstrip("/"))
            if not page:
                problems.append(f"{source}: the link to {target} leads to no page")
                return target
            return relpath(page, dirname(sources[source]) or ".") + rest

        def change_link(match):
            # Readers of the site do not know files: a link that shows a file's name shows the page's title.
            shown, target = match.groups()
            path = normpath(join(dirname(source), target.partition("#")[0]))
            if re.fullmatch(r"[\w/.-]+\.md", shown, re.ASCII) and os.path.isfile(path):
                title = re.match("# (.*)", read(path))
                shown = title[1] if title else shown
            return f"[{shown}]({change(target)})"

        def change_part(part):
            part = re.sub(r"\[((?:[^\][]|\[\])*)\]\(([^)\s]+)\)", change_link, part)
            return re.sub(r'( src=")([^"]*)"', lambda match: match[1] + change(match[2]) + '"', part)

        return outside_code(text, change_part)

    for source in sources:
        if source.startswith(("README", "docs/", "examples/")):
            problems += wide(source, read(source))
    paths = sorted(sources)
    filled = subprocess.run([os.environ.get("LUA", "lua5.4"), "tools/reference.lua", *paths], stdout=subprocess.PIPE, text=True)
    if filled.returncode != 0:
        problems.append("the reference is not complete")
    for source, text in zip(paths, filled.stdout.split("\0")):
        write(join(directory, sources[source]), lists(linked(source, text)))
    for source, page in code.items():
        end = re.search(r"\.(\w+)$", source)
        language = end[1] if end else "bash" if source.startswith("examples/") else "text"
        write(join(directory, page), f"---\ntitle: {source}\n---\n\n# `{source}`\n\n"
              f"````{LANGUAGES.get(language, language)}\n{read(source)}\n````\n")
    for source, page in copied.items():
        os.makedirs(join(directory, dirname(page)), exist_ok=True)
        shutil.copyfile(source, join(directory, page))

    navigation = read("docs/mkdocs.yml")
    for source, page in sources.items():
        if not page.startswith("project/") and not re.search(f'[ "]{re.escape(page)}"?\n', navigation):
            problems.append(f"{source}: not in the navigation of docs/mkdocs.yml")
    return problems


# What MkDocs has made ########################################################################################################

# Attributes that make a browser fetch something, in these elements; `src` and `srcset` do in all but links.
FETCHING = {("link", "href"), ("object", "data"), ("form", "action")}


def attributes_of(text):
    """Yields element, name and value of the attributes that matter here."""
    for element, attributes in re.findall(r"<([a-z][a-z0-9]*)(\s[^>]*)>", text):
        for name, value in re.findall(r'\s(id|name|href|src|srcset|data|action)="?([^"\s>]+)', attributes):
            yield element, name, html.unescape(value)


def foreign(text):
    """Returns the addresses of other hosts that a page or a style sheet makes a browser fetch."""
    addresses = [value for element, name, value in attributes_of(text)
                 if (element, name) in FETCHING or element != "a" and name in ("src", "srcset")]
    addresses += re.findall(r"url\(\s*[\"']?([^\"')]*)", text) + re.findall(r"@import\s*[\"']([^\"']*)", text)
    return [address for address in addresses if re.match(r"([A-Za-z][\w+.-]*:)?//", address)]


def check(directory):
    """Returns links to files or places that do not exist, sections of one name, and what would be fetched from other hosts."""
    problems, texts, places = [], {}, {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = relpath(join(folder, name), directory)
            if name.endswith((".html", ".css")) and path != "404.html":  # its links are absolute, for every address
                texts[path] = read(join(folder, name))
    for path, text in texts.items():
        problems += [f"{path}: fetches {address}" for address in foreign(text)]
        places[path] = {urllib.parse.unquote(value) for element, name, value in attributes_of(text)
                        if name == "id" or name == "name" and element == "a"}
    for path, text in texts.items():
        titles = [re.sub("<[^>]*>", "", heading) for heading in re.findall("<h2[^>]*>(.*?)</h2>", text, re.DOTALL)]
        problems += [f"{path}: two headings '{title}'" for title in sorted(set(titles)) if titles.count(title) > 1]
        for _, name, target in attributes_of(text):
            if name not in ("href", "src") or re.match(r"[A-Za-z][\w+.-]*:|//", target):
                continue
            file, place = re.match(r"([^#?]*)[^#]*#?(.*)", urllib.parse.unquote(target)).groups()
            full = normpath(join(dirname(path), file)) if file else path
            if os.path.isdir(join(directory, full)):
                full = normpath(join(full, "index.html"))
            if not os.path.isfile(join(directory, full)):
                problems.append(f"{path}: there is no {target}")
            elif place and full in places and place not in places[full] and not place.startswith("__"):
                problems.append(f"{path}: there is no place {target}")
    return sorted(problems) if texts else [directory + " has no pages"]


# Versions ####################################################################################################################


def versions(directory):
    """Writes versions.json, from which the pages take the list of versions, and an index.html that leads to the newest version."""
    names = [name for name in os.listdir(directory) if os.path.isfile(join(directory, name, "index.html"))]
    names.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)], reverse=True)
    if not names:
        return ["no version in " + directory]
    write(join(directory, "versions.json"), json.dumps([{"version": name, "title": name, "aliases": []} for name in names]) + "\n")
    write(join(directory, "index.html"), f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>zklock</title>
<meta http-equiv="refresh" content="0; url={names[0]}/index.html">
<a href="{names[0]}/index.html">zklock {names[0]}</a>
""")
    return []


STEPS = {"pages": pages, "check": check, "versions": versions}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in STEPS:
        sys.exit(__doc__)
    found = STEPS[sys.argv[1]](sys.argv[2])
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
