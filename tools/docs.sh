#!/usr/bin/env bash
#
# Checks that the targets of the documentation's links exist: of each relative link and picture in a Markdown file, of each `make`
# target that a page names, and of each source file or function that a picture names. Then makes the reference,
# build/docs/index.html, with LDoc, whose warnings are errors, and checks its links and pictures too.
#
# Usage: tools/docs.sh [STEP…]     steps: links reference (default: both)

set -u
cd "$(dirname "$0")/.." || exit 1

bad=0
complain() {
    echo "$1" >&2
    bad=$((bad + 1))
}

# A text in a picture like "csrc/lock/entry.c created, seated" names a file or a folder, and functions of the file. A text of the
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

step_links() {
    local page target file
    while read -r page; do
        while read -r target; do
            case $target in *://* | mailto:* | '#'* | '') continue ;; esac
            file=${target%%#*}
            [ -e "$(dirname "$page")/$file" ] || complain "$page: there is no $file"
        done < <(
            grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//; s/ .*//'
            grep -o '<[a-z]*[^>]* src="[^"]*"' "$page" | sed 's/.* src="//; s/"$//'
        )
        while read -r target; do
            grep -q "^$target:" Makefile || complain "$page: there is no make $target"
        done < <(grep -o '`make [a-z-]*' "$page" | sed 's/^`make //' | sort -u)
    done < <(git ls-files --cached --others --exclude-standard '*.md')
    check_pictures
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
    cp -r docs/types docs/pictures docs/plots docs/*.yml docs/*.json "$output/"
    # LDoc's column has 700 pixels, less than a picture or a line of code needs.
    printf '#content { width: auto; max-width: 900px }\n#content img { max-width: 100%%; height: auto }\n' >>"$output/ldoc.css"
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
        done < <(grep -oE ' (href|src)="[^"]*"' "$page" | sed 's/^[^"]*"//; s/"$//' | sort -u)
    done < <(find "$output" -name '*.html')
    [ $bad != 0 ] || echo "$output/index.html"
}

[ $# -gt 0 ] || set -- links reference
for step; do
    "step_$step" || exit 2
done
[ $bad = 0 ]
