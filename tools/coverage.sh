#!/usr/bin/env bash
#
# Which lines of csrc/ and lua/ the tests run, added up: C unit tests, the corpus of the fuzzer of a server that lies, simulation,
# and the specs: all of them under Lua 5.4, those inside nginx, and under Lua 5.1 those for which it has what 5.4 has not (copas,
# fork) or has not what 5.4 has (operators on bits, yields across pcall). The report on C is build/coverage/index.html, that on
# Lua build/coverage/lua.txt; the summaries are printed. Fails if a test has failed, whose output is build/coverage/<suite>.log.

set -eu
cd "$(dirname "$0")/.."

tools/build.sh c-coverage 5.4-coverage 5.1-coverage luajit-coverage
find build/c-coverage build/*-coverage -name '*.gcda' -delete
rm -rf build/coverage
mkdir -p build/coverage/lua

failed=0

# suite NAME COMMAND…: runs it; what it says goes to a file.
suite() {
    local name=$1 log=build/coverage/$1.log
    shift
    if ! "$@" >"$log" 2>&1 </dev/null; then
        echo "not ok: $name: $log"
        failed=1
    fi
}

# hook LUA: builds what counts lines in a Lua; prints the Lua code that begins it.
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

# A variable of its own, or of several Luas of which only one is meant: other programs in Lua take part in specs.
# What is tagged #released is about a build that counts nothing.
LUA_INIT_5_4=$(hook lua5.4) suite specs-5.4 specs lua5.4 5.4-coverage --exclude-tags=released spec
LUA_INIT="if _VERSION == 'Lua 5.1' and not jit then $(hook lua5.1) end" suite specs-5.1 specs lua5.1 5.1-coverage \
    spec/behaviour/adapter_spec.lua spec/behaviour/key_spec.lua spec/behaviour/primitives_spec.lua \
    spec/behaviour/with_lock_spec.lua spec/contract/loops_*_spec.lua spec/contract/process_spec.lua
ZKLOCK_NGINX_VARIANT=luajit-coverage ZKLOCK_NGINX_INIT=$(hook luajit) suite specs-nginx \
    specs luajit luajit-coverage --tags=nginx spec

gcovr --root . --filter csrc/ --exclude-unreachable-branches --print-summary --html-details build/coverage/index.html \
    --txt build/coverage/c.txt build/c-coverage build/5.4-coverage build/5.1-coverage build/luajit-coverage
lua5.4 tools/coverage.lua build/coverage/lua | tee build/coverage/lua.txt
exit $failed
