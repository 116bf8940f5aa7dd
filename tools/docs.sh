#!/usr/bin/env bash
#
# Checks that the targets of the documentation's links exist: of each relative link in a Markdown file, and of each `make` target
# that a page names. Then makes the reference, build/docs/index.html, with LDoc, whose warnings are errors, and checks its links
# too.
#
# Usage: tools/docs.sh [STEP…]     steps: links reference (default: both)

set -u
cd "$(dirname "$0")/.." || exit 1

bad=0
complain() {
    echo "$1" >&2
    bad=$((bad + 1))
}

step_links() {
    local page target file
    while read -r page; do
        while read -r target; do
            case $target in *://* | mailto:* | '#'* | '') continue ;; esac
            file=${target%%#*}
            [ -e "$(dirname "$page")/$file" ] || complain "$page: there is no $file"
        done < <(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//; s/ .*//')
        while read -r target; do
            grep -q "^$target:" Makefile || complain "$page: there is no make $target"
        done < <(grep -o '`make [a-z-]*' "$page" | sed 's/^`make //' | sort -u)
    done < <(git ls-files --cached --others --exclude-standard '*.md')
}

step_reference() {
    local input=build/docs-input output=build/docs log=build/docs.log page target
    rm -rf "$input" "$output"
    mkdir -p "$input/api" "$input/pages"
    if ! "${LUA:-lua5.4}" tools/reference.lua "$input" || ! ldoc --fatalwarnings -c docs/config.ld . >"$log" 2>&1 ||
        grep -v '^reading configuration from\|^changing to directory\|^output written to' "$log" >&2; then
        cat "$log" >&2
        complain "the reference could not be made without a warning"
        return
    fi
    cp -r docs/types "$output/"
    while read -r page; do
        while read -r target; do
            case $target in
            *://* | '') continue ;;
            '#'*)
                grep -qF "name = \"${target#?}\"" "$page" || grep -qF "name=\"${target#?}\"" "$page" ||
                    complain "$page: there is no $target"
                continue
                ;;
            esac
            [ -e "$(dirname "$page")/${target%%#*}" ] || complain "$page: there is no $target"
        done < <(grep -o ' href="[^"]*"' "$page" | sed 's/^ href="//; s/"$//' | sort -u)
    done < <(find "$output" -name '*.html')
    [ $bad != 0 ] || echo "$output/index.html"
}

[ $# -gt 0 ] || set -- links reference
for step; do
    "step_$step" || exit 2
done
[ $bad = 0 ]
