#!/usr/bin/env bash
#
# Runs groups of test suites with CTest, and adds up what has passed and failed in all of them. The last line is `N passed, N failed`,
# and the exit status agrees with it. Before it stand a table of the suites, a digest of the failures, and what this system has left
# out, with the reasons.
#
# Usage: tools/test.sh [GROUP…] [OPTIONS OF ctest]    GROUP: the labels in spec/suites.cmake. Default: must, all that must pass before a
#                                                     change is merged
#        tools/test.sh --in DIRECTORY                 all suites of a CTestTestfile.cmake; logs go to DIRECTORY-logs

set -u
cd "$(dirname "$0")/.." || exit 1

directory=build/test groups=
if [ "${1:-}" = --in ]; then
    directory=$2
    shift 2
else
    while [[ ${1:--} != -* ]]; do
        groups+=${groups:+|}$1
        shift
    done
    what=$(cmake --preset suites 2>&1) || { echo "$what" && exit 1; }
    set -- --resource-spec-file "$PWD/build/test/processors.json" -L "^(${groups:-must})\$" "$@"
fi
export ZKLOCK_LOGS=$directory-logs
mkdir -p "$ZKLOCK_LOGS"
rm -f "$ZKLOCK_LOGS"/*.{begun,result,left} "$directory/Testing/Temporary/CTestCostData.txt"

# More suites at a time than there are processors: most wait for servers most of the time.
ctest --test-dir "$directory" -j $(($(nproc) * 4 + 1)) --output-on-failure --no-tests=error "$@"
status=$?

# digest LOG: the failures in few lines, for readers who see only the end of the output.
digest() {
    local cut
    cut=$(awk '
        /^(Failure|Error) (->|→)/ || /^\[  FAILED  \]/ || /^(not ok|FAILED)/ {
            left = 14
        }
        left > 0 { print "    " substr($0, 1, 200); left-- }' "$1" | head -n 70)
    [ -n "$cut" ] || cut=$(tail -n 25 "$1" | cut -c 1-200 | sed 's/^/    /')
    printf '%s\n' "$cut"
}

all_passed=0 all_failed=0 table='' failures=''
for begun in "$ZKLOCK_LOGS"/*.begun; do
    [ -f "$begun" ] || break
    # A suite that was killed, also for its time limit, could not report that itself.
    if ! read -r passed failed 2>/dev/null <"${begun%.begun}.result"; then
        passed=0 failed=1
        echo "-- was begun, and has left no result" >>"${begun%.begun}.log"
    fi
    table+=$(printf '%6s / %-4s %s' "$passed" "$failed" "$(cat "$begun")")$'\n'
    [ "$failed" = 0 ] || failures+="not ok: $(cat "$begun")"$'\n'$(digest "${begun%.begun}.log")$'\n'
    all_passed=$((all_passed + passed))
    all_failed=$((all_failed + failed))
done
printf '\npassed / failed\n%s%s' "$table" "$failures"
# CTest has failed otherwise.
[ $status = 0 ] || [ $all_failed != 0 ] || all_failed=1
cat /dev/null "$ZKLOCK_LOGS"/*.left 2>/dev/null | sort -u
echo "took $SECONDS s; $ZKLOCK_LOGS/ has the output of each, and the seconds of a processor that it took"
echo "$all_passed passed, $all_failed failed"
[ $all_failed = 0 ] && [ $all_passed -gt 0 ]
