#!/usr/bin/env bash
#
# Checks that what the documentation points at is there: each relative link in a Markdown file, and each `make` target that
# one names.

set -u
cd "$(dirname "$0")/.." || exit 1

bad=0
complain() {
    echo "$1" >&2
    bad=$((bad + 1))
}

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
[ $bad = 0 ]
