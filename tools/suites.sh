#!/usr/bin/env bash
#
# Shared by tools/test.sh and tools/check.sh: runs several suites at a time and adds up their counts. To be sourced from the
# project's directory, with the output directory in `logs`; two runs at a time need a directory each.
#
# Each suite is a command whose counts are read from its output. A suite counts as failed if it fails, is killed, runs out of time,
# has run nothing at all, or has begun and left no result. The output of a failed suite is shown in full; all output is in `logs`.
# What a suite leaves out because the system lacks something is neither passed nor failed, and is named at the end. The last line is
# `N passed, N failed`, and the exit status of `summary` agrees with it.

: "${logs:?tools/suites.sh: say where the output of the suites goes}"

slots=$(($(nproc) * 3 + 1))

# Removes the files of an earlier run.
clear_logs() {
    mkdir -p "$logs"
    rm -f "$logs"/*.begun "$logs"/*.result
}

# Seconds since the start, for the headings.
began=$SECONDS

# ---- A suite's output: two numbers, passed and failed -------------------------------------------------------------------

# cmocka, one group a program: "[  PASSED  ] 27 test(s)."
count_cmocka() {
    awk '
        /^\[  PASSED  \] [0-9]+ test/ { passed += $4 }
        /^\[  FAILED  \] [0-9]+ test/ { failed += $4 }
        match($0, /run\.\[  (PASSED|FAILED)  \] [0-9]+ test/) {
            split(substr($0, RSTART), word, " ")
            if (word[2] == "PASSED") passed += word[4]; else failed += word[4]
        }
        END { print passed + 0, failed + 0 }' "$1"
}

# Our own programs: a line "N passed, N failed"; the last such line of each run.
count_ours() {
    awk '/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3 } END { print passed + 0, failed + 0 }' "$1"
}

# busted: "12 successes / 0 failures / 0 errors / 1 pending : 0.5 seconds"
count_busted() {
    awk '
        /^[0-9]+ success(es)? \/ / {
            for (i = 1; i < NF; i++) {
                if ($(i + 1) ~ /^success/) passed += $i
                if ($(i + 1) ~ /^(failure|error)/) failed += $i
            }
        }
        END { print passed + 0, failed + 0 }' "$1"
}

# A check whose only result is its exit status.
count_status() {
    grep -q '^left out: ' "$1" && echo 0 0 || echo 1 0
}

# left_out NAME REASON: for the command of a suite, in place of what this system cannot run.
left_out() {
    printf 'left out: %s: %s\n' "$1" "$2"
}

# The lines of left_out, and such a line for each pending spec that gives a reason. (Others do not concern the Lua that runs them.)
what_is_left_out() {
    awk '
        /^left out: / { print }
        /^Pending (->|→) / { getline title; getline reason
            if (sub(/^.*:[0-9]+: /, "", reason)) print "left out: " title ": " reason }' "$1"
}

# suite NAME COUNTER SECONDS COMMAND: COMMAND is a line for the shell; it can use the functions below. Runs in the background, with
# more suites at a time than there are processors: most wait for servers most of the time.
suite() {
    while [ "$(jobs -rp | wc -l)" -ge "$slots" ]; do
        wait -n
    done
    printf '%s\n' "$1" >"$(log_of "$1").begun"
    run_suite "$@" &
}

# log_of NAME: the file for a suite's output. Next to it NAME.begun exists from the suite's beginning on, and NAME.result from its
# end on.
log_of() {
    printf '%s/%s.log' "$logs" "$(printf '%s' "$1" | tr -c 'a-zA-Z0-9.\n' '-')"
}

# Waits for all suites that have begun: what follows needs their results.
settle() {
    wait
}

run_suite() {
    local name=$1 counter=$2 limit=$3 command=$4
    local log status passed failed started=$SECONDS user system TIMEFORMAT='%0U %0S'
    log=$(log_of "$name")
    { time timeout --kill-after=20 "$limit" bash -c "$command" >"$log" 2>&1 </dev/null; } 2>"$log.time"
    status=$?
    read -r user system < <(tail -n 1 "$log.time")
    read -r passed failed < <("count_$counter" "$log")
    [ "$counter" != status ] || [ $status = 0 ] || passed=0
    if [ $status != 0 ] && [ "$failed" = 0 ]; then
        failed=1
        [ $status != 124 ] || echo "-- not done after $limit seconds" >>"$log"
        echo "-- ended with status $status" >>"$log"
    elif [ "$passed" = 0 ] && [ "$failed" = 0 ] && [ -z "$(what_is_left_out "$log")" ]; then
        failed=1
        echo "-- nothing was tested" >>"$log"
    fi
    {
        printf '== %s\n' "$name"
        [ "$failed" = 0 ] || cat "$log"
        printf '   %d ok, %d not ok, %d s, %d s of a processor\n' "$passed" "$failed" "$((SECONDS - started))" \
            "$((user + system))"
    } >"$log.shown"
    cat "$log.shown" # in one go: others may be printing too
    printf '%d %d %s\n' "$passed" "$failed" "$name" >"$log.result"
}

# ---- What belongs to which file ----------------------------------------------------------------------------------------

# variant_of LUA: the build that has the module for it.
variant_of() {
    case $1 in
    luajit) echo luajit ;;
    lua5.[1-5]) echo "${1#lua}" ;;
    *) echo "no such Lua: $1 (lua5.1 to lua5.5, or luajit)" >&2 && return 2 ;;
    esac
}

# has_lua LUA: whether the module can be built for it, and specs be run with it.
has_lua() {
    pkg-config --exists "$1" && "$1" -e 'require "busted.core"' 2>/dev/null
}

# contract_arguments FILE LUA: how tools/specs.sh runs a spec on real servers. nginx always has LuaJIT.
contract_arguments() {
    case $1 in
    spec/contract/openresty_*) echo "real --lua luajit --tags=nginx" ;;
    *) echo "real --lua $2" ;;
    esac
}

# The version of the ZooKeeper server that is installed.
installed_server() {
    basename /usr/share/java/zookeeper-[0-9]*.jar .jar | sed 's/^zookeeper-//'
}

# The same random programs in both worlds of the conformance suite: FIRST COUNT. One result.
same_programs() {
    local simulated
    simulated=$(mktemp) || return 1
    ZKLOCK_SIMULATED_VERSION=${ZKLOCK_SIMULATED_VERSION:-$(installed_server)} computing build/c/conformance_simulated --programs "$@" >"$simulated" &&
        build/c/conformance_real --programs "$@" | diff "$simulated" - | head -n 60
    local results=("${PIPESTATUS[@]}")
    rm -f "$simulated"
    [ "${results[*]}" = "0 0 0" ]
}

# The options of each sanitizer; the same everywhere, so that no report goes unnoticed.
asan_options=detect_leaks=1:abort_on_error=0:exitcode=86:detect_stack_use_after_return=1
ubsan_options=print_stacktrace=1:halt_on_error=1
tsan_options=halt_on_error=1:exitcode=86:second_deadlock_stack=1:suppressions=$PWD/tools/tsan.supp

sanitized() {
    env ASAN_OPTIONS="$asan_options" UBSAN_OPTIONS="$ubsan_options" TSAN_OPTIONS="$tsan_options" "$@"
}

run_unit() {
    local output status
    output=$(sanitized "$1" 2>&1)
    status=$?
    printf -- '-- %s\n%s\n' "$1" "$output" # in one go: others may be printing too
    [ $status = 0 ] || { echo "-- $1 ended with status $status" && return 1; }
}

# run_units VARIANT [TEST]: runs every C unit test of a variant except TEST. Runs them all even if one fails, and then fails.
# test_system waits for sessions to expire: the others run at the same time, one after the other. (All at once, each with its
# server, delayed answers for seconds.)
run_units() {
    { echo "build/$1/unit/test_system" && unit_programs "$1"; } | grep -vxF "build/$1/unit/${2:-}" | run_each_unit
}

# run_quick_units VARIANT: the same without test_system.
run_quick_units() {
    unit_programs "$1" | run_each_unit
}

run_each_unit() {
    # shellcheck disable=SC2016 # for the other shell
    xargs -P 2 -n 1 bash -c 'run_unit "$0"'
}

unit_programs() {
    printf '%s\n' build/"$1"/unit/test_* | grep -v '/test_system$'
}

# Programs that only compute run at a lower priority than those that wait for servers, whose sessions have timeouts. (Not for
# fuzzers, which set their own options for leaks.)
computing() {
    sanitized nice -n 5 "$@"
}

export -f left_out installed_server same_programs sanitized computing run_unit run_units run_quick_units run_each_unit unit_programs
export asan_options ubsan_options tsan_options

# ---- The end -----------------------------------------------------------------------------------------------------------

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

# True if all suites that have begun have passed.
well() {
    local begun failed
    for begun in "$logs"/*.begun; do
        read -r _ failed _ 2>/dev/null <"${begun%.begun}.result" && [ "$failed" = 0 ] || return 1
    done
}

# Prints a digest of the failures, what was left out, and the line with the counts.
summary() {
    local begun log passed failed all_passed=0 all_failed=0
    echo
    for begun in "$logs"/*.begun; do
        [ -f "$begun" ] || break
        log=${begun%.begun}
        # A suite whose shell was killed could not report that itself.
        if ! read -r passed failed _ 2>/dev/null <"$log.result"; then
            passed=0 failed=1
            echo "-- was begun, and has left no result" >>"$log"
        fi
        [ "$failed" = 0 ] || { echo "not ok: $(cat "$begun")" && digest "$log"; }
        all_passed=$((all_passed + passed))
        all_failed=$((all_failed + failed))
    done
    for begun in "$logs"/*.begun; do
        [ ! -f "${begun%.begun}" ] || what_is_left_out "${begun%.begun}"
    done | sort -u
    echo "took $((SECONDS - began)) s; $logs/ has the output of each, and the seconds of a processor that it took"
    echo "$all_passed passed, $all_failed failed"
    [ "$all_failed" = 0 ] && [ "$all_passed" -gt 0 ]
}
