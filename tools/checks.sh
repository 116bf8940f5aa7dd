#!/usr/bin/env bash
#
# Counts checks, for scripts that end with `N passed, N failed`. To be sourced.

passed=0
failed=0

# check NAME COMMAND…: shows the end of the output of a command that fails.
check() {
    local output
    if output=$("${@:2}" 2>&1 </dev/null); then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failed=$((failed + 1))
        tail -n 40 <<<"$output"
        echo "not ok  $1"
    fi
}

summary() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}
