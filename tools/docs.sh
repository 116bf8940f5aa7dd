#!/usr/bin/env bash
#
# Checks that what the documentation names is there: the targets of links, each `make` target and script that a page or a workflow
# names, and each source file or function that a picture names. Finds pages in Chinese whose originals have changed, and code that is
# too wide. Then makes the site, build/site/index.html, with MkDocs, and checks it: its links, and that browsers fetch nothing from
# other hosts.
#
# Usage: tools/docs.sh [STEP…]     steps: names translations site (default: all)
#                                  SITE_BUILD: where the site is made, build/ unless given

set -u
cd "$(dirname "$0")/.." || exit 1

bad=0
complain() {
    echo "$1" >&2
    bad=$((bad + 1))
}

# A text in a picture like "csrc/lock/entry.c created, entry_seated" names a file or a folder, and functions of the file. A text of the
# class "state" names a state of an entry.
check_pictures() {
    local picture file names name
    while read -r picture; do
        while read -r name; do
            grep -rqw "ZKL_ENTRY_$name" csrc || complain "$picture: entries have no state $name"
        done < <(grep -o 'class="state"[^>]*>[^<]*' "$picture" | sed 's/.*>//')
        while read -r file names; do
            [ -e "$file" ] || complain "$picture: there is no $file"
            for name in ${names//,/ }; do
                grep -qwF -- "$name" "$file" || complain "$picture: there is no $name in $file"
            done
        done < <(grep -oE '>(csrc|lua)/[^<]*' "$picture" | tr -d '>')
    done < <(git ls-files --cached --others --exclude-standard 'docs/pictures/*.svg')
}

# What .github and .devcontainer call is there.
check_workflows() {
    local file name
    while read -r file; do
        while read -r name; do
            grep -q "^$name:" Makefile || complain "$file: there is no make $name"
        done < <(grep -v '^ *#' "$file" | grep -oE '\bmake [a-z][a-z0-9-]*' | sed 's/^make //' | sort -u)
        while read -r name; do
            [ -e "$name" ] || complain "$file: there is no $name"
        done < <(grep -oE '\btools/[a-z0-9.-]+' "$file" | sort -u)
    done < <(git ls-files --cached --others --exclude-standard .github .devcontainer)
}

step_names() {
    local page pages target
    while read -r page; do
        while read -r target; do
            grep -q "^$target:" Makefile || complain "$page: there is no make $target"
        done < <(grep -o '`make [a-z0-9-]*' "$page" | sed 's/^`make //' | sort -u)
    done < <(git ls-files --cached --others --exclude-standard '*.md')
    check_pictures
    check_workflows
    pages=$(mktemp -d) || return
    tools/site.py pages "$pages" || complain "the pages of the site could not be made"
    rm -r "$pages"
}

step_translations() {
    "${LUA:-lua5.4}" tools/translations.lua check || {
        complain "look at these pages again, then note that they fit: lua5.4 tools/translations.lua write PAGE…"
    }
}

# Each version has a directory of its own, so that the site may have several. MkDocs's warnings are errors.
step_site() {
    local build=${SITE_BUILD:-$PWD/build} input output version log
    input=$build/site-input log=$build/site.log
    version=$(cat VERSION) || return
    output=$build/site/$version
    rm -rf "$input" "$output"
    mkdir -p "$input"
    if ! tools/site.py pages "$input"; then
        complain "the pages of the site could not be made"
    elif ! SITE_INPUT=$input mkdocs build --strict --config-file docs/mkdocs.yml --site-dir "$output" >"$log" 2>&1; then
        cat "$log" >&2
        complain "MkDocs has failed"
    elif tools/site.py check "$output" && tools/site.py versions "$build/site"; then
        echo "${build#"$PWD"/}/site/index.html"
    else
        complain "the site has faults"
    fi
}

[ $# -gt 0 ] || set -- names translations site
for step; do
    "step_$step" || exit 2
done
[ $bad = 0 ]
