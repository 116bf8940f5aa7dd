#!/usr/bin/env bash
#
# Which lines of csrc/ and lua/ the tests run: C unit tests, simulation and the specs under Lua 5.4, added up. The report on C is
# build/coverage/index.html, that on Lua build/coverage/lua.txt; the summaries are printed.

set -eu
cd "$(dirname "$0")/.."

tools/build.sh c-coverage 5.4-coverage
find build/c-coverage build/5.4-coverage -name '*.gcda' -delete
for program in build/c-coverage/unit/test_*; do
    "$program" >/dev/null 2>&1 || echo "note: $program failed"
done
if [ -x build/c-coverage/simulate ]; then
    build/c-coverage/simulate --seeds 1 "${ZKLOCK_SEEDS:-300}" >/dev/null || echo "note: the simulation failed"
    build/c-coverage/simulate --memory 5 20 >/dev/null || echo "note: the simulation failed for want of memory"
    build/c-coverage/simulate_lua --seeds 1 300 >/dev/null || echo "note: simulated Lua programs failed"
fi
rm -rf build/coverage/lua
mkdir -p build/coverage/lua
LUA_INIT="@$PWD/tools/coverage.lua" ZKLOCK_COVERAGE=$PWD/build/coverage/lua \
    LUA_PATH="lua/?.lua;lua/?/init.lua;./?.lua;;" LUA_CPATH="build/5.4-coverage/?.so;;" \
    lua5.4 "$(command -v busted)" --output=plainTerminal spec >/dev/null || echo "note: specs failed"
gcovr --root . --filter csrc/ --exclude-unreachable-branches --print-summary \
    --html-details build/coverage/index.html build/c-coverage build/5.4-coverage
lua5.4 tools/coverage.lua build/coverage/lua | tee build/coverage/lua.txt
