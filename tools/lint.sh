#!/usr/bin/env bash
#
# Layout, static analysis, and the warnings of two compilers as errors. Each check is one in `N passed, N failed`; the output of a
# failed check is shown. What an analyser of another version than Debian 12's finds is shown, too, but is no failure.
#
# Usage: tools/lint.sh [CHECK…]     checks: layout layers gcc clang tidy cppcheck luacheck shellcheck docs (all of them)
#                                   or tidy-quick instead of tidy: each file once, and without clang's analyser
#                                   or a part of docs: states (the table of an entry's states), pictures
#
# An analyser that has found nothing does not run again until a file that it reads, its settings or its version has changed.
# build/lint/ remembers what it has read; without it everything is analysed.

set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

# files PATTERN…: files that are in git or could be added to it.
files() {
    git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
        [ ! -f "$file" ] || echo "$file"
    done
}

# inputs_of CHECK: what the result of an analyser depends on. Nothing for other checks, which are quick.
inputs_of() {
    case $1 in
    tidy | tidy-quick) clang-tidy --version && hashes '*.c' '*.h' CMakeLists.txt .clang-tidy ;;
    cppcheck) cppcheck --version && hashes '*.c' '*.h' ;;
    luacheck) luacheck --version && hashes '*.lua' '*.rockspec' .luacheckrc ;;
    shellcheck) shellcheck --version && shell_scripts | xargs sha256sum ;;
    esac
}

# hashes PATTERN…: of these files, of this one, and of what the packages with the headers are.
hashes() {
    files "$@" tools/lint.sh | xargs sha256sum
    dpkg-query --show '*-dev' 2>/dev/null
}

# judge_of CHECK: an analyser, and the beginning of the version whose verdict counts: others have other rules.
judge_of() {
    case $1 in
    layout) echo clang-format 14. ;;
    tidy | tidy-quick) echo clang-tidy 14. ;;
    cppcheck) echo cppcheck 2.10 ;;
    luacheck) echo luacheck 1.1. ;;
    shellcheck) echo shellcheck 0.9. ;;
    esac
}

# other_judge CHECK: what its analyser is if its verdict does not count; otherwise fails.
other_judge() {
    local tool expected version
    read -r tool expected < <(judge_of "$1") || return
    version=$("$tool" --version | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1)
    case $version in "$expected"*) return 1 ;; esac
    echo "$tool is ${version:-missing}, not ${expected%.}"
}

shell_scripts() {
    git grep --untracked -lIE '^#!.*\b(ba)?sh\b' | while read -r file; do
        if head -c 64 "$file" | head -n 1 | grep -aE '^#!.*\b(ba)?sh\b' >/dev/null; then echo "$file"; fi
    done
}

check_layout() {
    files '*.c' '*.h' | xargs -r clang-format --dry-run -Werror
}

check_layers() {
    lua5.4 tools/layers.lua
}

check_gcc() {
    tools/build.sh 5.1 5.4 luajit c
}

check_clang() {
    tools/build.sh clang
}

# tidy DIRECTORY: what its compile commands compile. A layer is one file, which includes the sources. Warnings of clang itself are
# errors here, too.
tidy() {
    grep -oE '"file": ?"[^"]*"' "$1/compile_commands.json" | cut -d '"' -f 4 | sort -u |
        xargs -r -P "$(nproc)" -n 4 clang-tidy -p "$1" --quiet "--checks=${tidy_checks:-}" 2>&1 |
        { grep -v '^[0-9]* warnings\? generated\|^Suppressed\|^Use -' || true; }
}

check_tidy() {
    tools/build.sh clang:configured && tidy build/clang
}

# clang-tidy analyses a file once for each of its compile commands: up to six times. Here each has its longest one, which defines most;
# and layers are as tests have them, for one Lua.
check_tidy-quick() {
    tools/build.sh clang:configured && mkdir -p build/clang/once &&
        lua5.4 - build/clang/compile_commands.json >build/clang/once/compile_commands.json <<'LUA' || return 1
local json, longest, commands = require "dkjson", {}, {}
for _, entry in ipairs(json.decode(assert(io.open(arg[1])):read "a")) do
    local target, other = entry.command:match "CMakeFiles/([^/]*)%.dir", longest[entry.file]
    local another = target:find "^shipped%-" or target:find "%-objects%-" or target:find "^breakable%-lua" and target ~= "breakable-lua5.4"
    if not another and not (other and #other.command >= #entry.command) then
        longest[entry.file] = entry
    end
end
for _, entry in pairs(longest) do
    commands[#commands + 1] = entry
end
print(json.encode(commands))
LUA
    tidy_checks="-clang-analyzer-*" tidy build/clang/once
}

# cppcheck must read the list macros of <sys/queue.h>; otherwise variables that walk over a list look uninitialised. It does not
# read the C client's header, which defines ZOO_VERSION.
check_cppcheck() {
    files 'csrc/*.c' 'spec/*.c' |
        cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
            --suppress=missingIncludeSystem -D_GNU_SOURCE -DZOO_VERSION -I"/usr/include/$(gcc -print-multiarch)" \
            -Icsrc -Ispec/simulation -j "$(nproc)" --file-list=-
}

check_luacheck() {
    files '*.lua' '*.rockspec' | LUA_INIT=@tools/loop_variables.lua xargs -r luacheck --quiet --codes --no-color &&
        files 'lua/*.lua' | xargs lua5.4 tools/private_names.lua
}

check_shellcheck() {
    shell_scripts | xargs -r shellcheck
}

check_states() {
    lua5.4 tools/states.lua
}

# Pictures are well-formed, and keep their rules.
check_pictures() {
    files 'docs/*.svg' | xargs -r xmllint --noout --nonet && files 'docs/pictures/*.svg' | xargs lua5.4 tools/pictures.lua
}

check_docs() {
    tools/docs.sh names translations && check_states && check_pictures && files '*.md' | xargs codespell
}

[ $# -gt 0 ] || set -- layout layers gcc clang tidy cppcheck luacheck shellcheck docs
passed=0
failed=0
for check; do
    began=$SECONDS
    inputs=$(inputs_of "$check")
    if [ -n "$inputs" ] && [ "$inputs" = "$(cat "build/lint/$check" 2>/dev/null)" ]; then
        passed=$((passed + 1))
        echo "ok      $check (has passed with the same files)"
    elif output=$("check_$check" 2>&1); then
        passed=$((passed + 1))
        [ -z "$inputs" ] || { mkdir -p build/lint && printf '%s\n' "$inputs" >"build/lint/$check"; }
        echo "ok      $check ($((SECONDS - began)) s)"
    elif other=$(other_judge "$check"); then
        printf '%s\nleft out: the verdict of lint %s: %s\n' "$output" "$check" "$other"
    else
        failed=$((failed + 1))
        printf '%s\nnot ok  %s (%d s)\n' "$output" "$check" "$((SECONDS - began))"
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
