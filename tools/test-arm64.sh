#!/usr/bin/env bash
#
# Tests zklock for arm64 on another machine: cross-compiled by gcc with warnings as errors, and run by qemu-user (tools/arm64.sh).
# ZooKeeper's servers, and all programs but Lua, are this machine's.
#
#   units     the C unit tests
#   virtual   spec/behaviour in virtual time, on Lua 5.4 and LuaJIT
#   real      the C client's cases and some specs with real servers, on both
#
# Ends with `N passed, N failed`. What qemu-user cannot run is named before that.
#
# Usage: tools/test-arm64.sh [PART…]     (default: all)

set -u
cd "$(dirname "$0")/.." || exit 1

logs=build/test-arm64-logs
# shellcheck source=tools/suites.sh
. tools/suites.sh
clear_logs
slots=$(nproc)
# Ends a hang.
ample=5400

real=(
    spec/behaviour/{mutex_exclusion,rwlock_sharing,semaphore_permits,max_hold,session_loss,transaction}_spec.lua
    spec/contract/loops_waits_spec.lua
)

unit_tests() {
    printf '%s\n' build/c-arm64/unit/test_* | grep -v '/test_process$' | tools/arm64.sh bash -c run_each_unit
}

export -f unit_tests

suites_units() {
    suite "C unit tests" cmocka "$ample" 'unit_tests'
    suite "C unit tests of processes" status "$ample" \
        "left_out 'test_process, and zklock run' 'qemu-user has no clone() of a process that sends no signal at its end'"
}

suites_virtual() {
    local lua
    for lua in lua5.4 luajit; do
        suite "behaviour in virtual time: $lua" busted "$ample" "nice -n 5 tools/specs.sh virtual-arm64 --lua $lua"
    done
}

suites_real() {
    local lua
    suite "the real client and server behave as the simulation says" ours "$ample" 'tools/arm64.sh build/c-arm64/conformance_real'
    for lua in lua5.4 luajit; do
        suite "real servers: $lua" busted "$ample" "tools/specs.sh real-arm64 --lua $lua ${real[*]}"
    done
}

[ $# -gt 0 ] || set -- units virtual real
for part; do
    case $part in units | virtual | real) ;; *) echo "tools/test-arm64.sh: no such part: $part" >&2 && exit 2 ;; esac
done
suite "build" status "$ample" \
    'tools/build.sh c-arm64:unit_programs,virtual-lua5.4,virtual-luajit,conformance_real 5.4-arm64 luajit-arm64'
settle
if ! well; then
    :
elif reason=$(tools/arm64.sh --possible 2>&1); then
    for part; do
        "suites_$part"
    done
else
    suite "what is built" status "$ample" "left_out 'all but the build' ${reason@Q}"
fi
settle
summary
