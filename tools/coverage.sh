#!/usr/bin/env bash
#
# Counts the lines of csrc/ and lua/ that the tests run: C unit tests, the corpus of fuzz_server, the simulation, and the specs. All
# specs run under Lua 5.4, those inside nginx under LuaJIT. Under Lua 5.1 run those for which 5.1 has what 5.4 lacks (copas, fork)
# or lacks what 5.4 has (operators on bits, yields across pcall). The report on C is build/coverage/index.html, the report on Lua
# build/coverage/lua.txt; the summaries are printed. Fails if a test has failed; its output is in build/coverage/<suite>.log.

set -eu
cd "$(dirname "$0")/.."

tools/build.sh c-coverage 5.4-coverage 5.1-coverage luajit-coverage
find build/c-coverage build/*-coverage -name '*.gcda' -delete
rm -rf build/coverage
mkdir -p build/coverage/lua

failed=0

# suite NAME COMMAND…: runs the command; its output goes to a file.
suite() {
    local name=$1 log=build/coverage/$1.log
    shift
    if ! "$@" >"$log" 2>&1 </dev/null; then
        echo "not ok: $name: $log"
        failed=1
    fi
}

# hook LUA: builds the line counter for a Lua; prints the Lua code that starts it.
hook() {
    local directory=build/coverage/hook-$1
    mkdir -p "$directory"
    # shellcheck disable=SC2046 # several words
    gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O2 -fPIC -shared -Wl,-z,nodelete $(pkg-config --cflags "$1") \
        -o "$directory/linehook.so" tools/linehook.c
    echo "assert(package.loadlib('$PWD/$directory/linehook.so', 'luaopen_linehook'))()"
}

# specs LUA VARIANT BUSTED ARGUMENTS…
# shellcheck disable=SC2317 # suite calls it
specs() {
    local lua=$1 variant=$2
    shift 2
    env LUA_PATH="lua/?.lua;lua/?/init.lua;./?.lua;;" LUA_CPATH="build/$variant/?.so;;" ZKLOCK_LUA="$lua" \
        ZKLOCK_COVERAGE="$PWD/build/coverage/lua" "$lua" "$(command -v busted)" --output=plainTerminal "$@"
}

for program in build/c-coverage/unit/test_*; do
    suite "$(basename "$program")" "$program"
done
suite replay_server build/c-coverage/unit/replay_server spec/unit/corpus/fuzz_server/*
suite simulation build/c-coverage/simulate --seeds 1 "${ZKLOCK_SEEDS:-2000}"
suite simulation-memory build/c-coverage/simulate --memory 20 40
ZKLOCK_COVERAGE=$PWD/build/coverage/lua suite simulated-programs build/c-coverage/simulate_lua --seeds 1 500

# Each Lua is selected by its variable or by a condition: programs in other Luas take part in specs.
# Specs tagged #released are about a build that counts nothing.
LUA_INIT_5_4=$(hook lua5.4) suite specs-5.4 specs lua5.4 5.4-coverage --exclude-tags=released spec
LUA_INIT="if _VERSION == 'Lua 5.1' and not jit then $(hook lua5.1) end" suite specs-5.1 specs lua5.1 5.1-coverage \
    spec/behaviour/adapter_spec.lua spec/behaviour/key_spec.lua spec/behaviour/primitives_*_spec.lua \
    spec/behaviour/with_lock_spec.lua spec/contract/loops_*_spec.lua spec/contract/process_spec.lua
ZKLOCK_NGINX_VARIANT=luajit-coverage ZKLOCK_NGINX_INIT=$(hook luajit) suite specs-nginx \
    specs luajit luajit-coverage --tags=nginx spec

gcovr --root . --filter csrc/ --exclude-unreachable-branches --print-summary --html-details build/coverage/index.html \
    --txt build/coverage/c.txt build/c-coverage build/5.4-coverage build/5.1-coverage build/luajit-coverage
lua5.4 tools/coverage.lua build/coverage/lua | tee build/coverage/lua.txt
exit $failed
