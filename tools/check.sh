#!/usr/bin/env bash
#
# What a change touches, in seconds: for the loop of editing and trying. Without a file: what differs from the last commit, or, where
# nothing does, what that commit has changed. The last line is `N passed, N failed`.
#
#   spec/behaviour/…, spec/virtual/…   that spec, or all of them, in virtual time
#   spec/contract/…                    that spec, on real servers
#   spec/unit/test_….c                 that program
#   csrc/…, spec/simulation/…          all C unit tests but test_system, some hundred schedules, some Lua programs, the specs of behaviour
#   lua/…                              some Lua programs, the specs of behaviour
#   docs/….md, README.md, tools/….sh   what lint has to say to them
#
# Layout and luacheck look at each changed file. LUA=luajit, for one, runs the specs under another Lua than 5.4.
#
# Usage: tools/check.sh [FILE…]

set -u
cd "$(dirname "$0")/.." || exit 1

# shellcheck source=tools/suites.sh
. tools/suites.sh

lua=${LUA:-lua5.4}

changed() {
    local files
    files=$(git diff --name-only HEAD && git ls-files --others --exclude-standard)
    [ -n "$files" ] || files=$(git diff --name-only HEAD~1 HEAD)
    printf '%s\n' "$files"
}

if [ $# -eq 0 ]; then
    mapfile -t files < <(changed)
else
    files=("$@")
    for file; do
        [ -f "$file" ] || { echo "tools/check.sh: there is no file $file" >&2 && exit 2; }
    done
fi

engine='' behaviour='' programs='' documents=''
variants=() behaviours=() contracts=() units=() c_files=() lua_files=() scripts=()
for file in "${files[@]}"; do
    [ -f "$file" ] || continue
    case $file in
    *.c | *.h) c_files+=("$file") ;;
    *.lua) lua_files+=("$file") ;;
    *.sh) scripts+=("$file") ;;
    esac
    case $file in
    spec/behaviour/*_spec.lua) behaviours+=("$file") ;;
    spec/contract/*_spec.lua | spec/campaign/*_spec.lua) contracts+=("$file") ;;
    spec/unit/test_*.c) units+=("$(basename "$file" .c)") ;;
    csrc/* | spec/simulation/*) engine=yes programs=yes behaviour=yes ;;
    lua/*) programs=yes behaviour=yes ;;
    spec/virtual/* | spec/support/*) behaviour=yes ;;
    *.md | docs/*) documents=yes ;;
    esac
done

[ -z "$engine$programs$behaviour${behaviours[*]}${units[*]}" ] || variants+=(c)
[ ${#contracts[@]} -eq 0 ] || variants+=("${lua#lua}")
if [ ${#variants[@]} -gt 0 ]; then
    suite "build: ${variants[*]}" status 400 "tools/build.sh ${variants[*]}"
    settle
fi
if ! grep -qs '^[0-9]* [1-9]' "$logs"/build-*.result; then
    if [ -n "$engine" ]; then
        suite "schedules" ours 120 'build/c/simulate --seeds 1 300'
        suite "single scenes" ours 60 'build/c/scenes'
        suite "the simulator itself" ours 60 'build/c/sim_selftest'
        suite "C unit tests" cmocka 180 'run_quick_units c'
    elif [ ${#units[@]} -gt 0 ]; then
        for unit in "${units[@]}"; do
            suite "$unit" cmocka 120 "build/c/unit/$unit"
        done
    fi
    [ -z "$programs" ] || suite "Lua programs" ours 120 'build/c/simulate_lua --seeds 1 40'
    if [ -n "$behaviour" ]; then
        suite "behaviour in virtual time: $lua" busted 300 "tools/specs.sh virtual --lua $lua"
    elif [ ${#behaviours[@]} -gt 0 ]; then
        suite "behaviour in virtual time: $lua" busted 300 "tools/specs.sh virtual --lua $lua ${behaviours[*]}"
    fi
    [ ${#contracts[@]} -eq 0 ] ||
        suite "contracts: $lua" busted 600 "tools/specs.sh real --lua $lua ${contracts[*]}"
fi
[ ${#c_files[@]} -eq 0 ] || suite "layout" status 60 "clang-format --dry-run -Werror ${c_files[*]}"
[ ${#lua_files[@]} -eq 0 ] || suite "luacheck" status 60 "luacheck --quiet --codes --no-color ${lua_files[*]}"
[ ${#scripts[@]} -eq 0 ] || suite "shellcheck" status 60 "shellcheck -x ${scripts[*]}"
[ -z "$documents" ] || suite "documents" ours 300 'tools/lint.sh docs'
settle
if ! ls "$logs"/*.result >/dev/null 2>&1; then
    echo "tools/check.sh: no test belongs to ${files[*]}" >&2
    exit 2
fi
summary
