#!/usr/bin/env bash
#
# Runs the test suites, several at a time, and adds up what they say.
#
# Each suite is a command whose own counts are read from its output. A suite counts as failed if it fails, is killed, runs
# out of time, or has run nothing at all. The output of one that failed is shown in full; that of all is in build/test-logs/.
# The last line is `N passed, N failed`, and the exit status says the same.
#
# Usage: tools/test.sh [GROUP…]     groups: lint lua campaign sim c rock (default: all of them); nginx-asan

set -u
cd "$(dirname "$0")/.." || exit 1

logs=build/test-logs
mkdir -p "$logs"

slots=$(($(nproc) * 2 + 1))
rm -f "$logs"/*.result

# Seconds since the start, for the headings.
began=$SECONDS

# ---- What a suite's output says: two numbers, passed and failed --------------------------------------------------------

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

# Our own programs: a line "N passed, N failed"; the last one of each run.
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

# A check that says yes or no by its exit status.
count_status() {
    echo 1 0
}

# suite NAME COUNTER SECONDS COMMAND: COMMAND is a line for the shell, which knows the functions below. Runs in the background,
# beside others, more of them than there are processors: most wait for servers most of the time.
suite() {
    while [ "$(jobs -rp | wc -l)" -ge "$slots" ]; do
        wait -n
    done
    run_suite "$@" &
}

# All that has been begun is done: what follows needs it.
settle() {
    wait
}

run_suite() {
    local name=$1 counter=$2 limit=$3 command=$4
    local log status passed failed started=$SECONDS
    log=$logs/$(printf '%s' "$name" | tr -c 'a-zA-Z0-9.\n' '-').log
    timeout --kill-after=20 "$limit" bash -c "$command" >"$log" 2>&1 </dev/null
    status=$?
    read -r passed failed < <("count_$counter" "$log")
    [ "$counter" != status ] || [ $status = 0 ] || passed=0
    if [ $status != 0 ] && [ "$failed" = 0 ]; then
        failed=1
        [ $status != 124 ] || echo "-- not done after $limit seconds" >>"$log"
        echo "-- ended with status $status" >>"$log"
    elif [ "$passed" = 0 ] && [ "$failed" = 0 ]; then
        failed=1
        echo "-- nothing was tested" >>"$log"
    fi
    {
        printf '== %s\n' "$name"
        [ "$failed" = 0 ] || cat "$log"
        printf '   %d ok, %d not ok, %d s\n' "$passed" "$failed" "$((SECONDS - started))"
    } >"$log.shown"
    cat "$log.shown" # in one go: others may be printing too
    printf '%d %d %s\n' "$passed" "$failed" "$name" >"$log.result"
}

# ---- Suites ------------------------------------------------------------------------------------------------------------

# What each sanitizer is to do; the same words everywhere, so that no report goes unnoticed.
asan_options=detect_leaks=1:abort_on_error=0:exitcode=86:detect_stack_use_after_return=1
ubsan_options=print_stacktrace=1:halt_on_error=1
tsan_options=halt_on_error=1:exitcode=86:second_deadlock_stack=1:suppressions=$PWD/tools/tsan.supp

sanitized() {
    env ASAN_OPTIONS="$asan_options" UBSAN_OPTIONS="$ubsan_options" TSAN_OPTIONS="$tsan_options" "$@"
}

# run_units VARIANT: every C unit test of a variant; fails if one of them does, but runs them all.
run_units() {
    local result=0 program
    for program in build/"$1"/unit/test_*; do
        echo "-- $program"
        sanitized "$program" || { echo "-- $program ended with status $?" && result=1; }
    done
    return $result
}

# run_specs LUA VARIANT [BUSTED ARGUMENTS…]: all specs, or those that match; `runner` may hold a command to run them under.
run_specs() {
    local lua=$1 variant=$2
    shift 2
    env LUA_PATH="lua/?.lua;lua/?/init.lua;./?.lua;;" LUA_CPATH="build/$variant/?.so;;" ZKLOCK_LUA="$lua" \
        "${runner[@]}" "$lua" "$(command -v busted)" --output=plainTerminal "$@" spec
}

# The interpreters are not instrumented: the sanitizer's library has to be there before them. All programs that specs start
# inherit it, so that those in Lua can load the module; what is asked of an interpreter and not of bash and Java stands in
# the file that is named after it. Leaks of the interpreter's own libraries are not ours to judge.
run_specs_asan() {
    local runner=(
        env "LD_PRELOAD=$(gcc -print-file-name=libasan.so)" "UBSAN_OPTIONS=$ubsan_options"
        "ASAN_OPTIONS=detect_leaks=0:handle_segv=0:include_if_exists=$PWD/tools/asan-%b.options"
        "LSAN_OPTIONS=suppressions=$PWD/tools/lsan.supp:print_suppressions=0"
    )
    run_specs lua5.4 5.4-asan "$@"
}

# nginx's workers under ASan and UBSan, whose reports spec/support/nginx.lua looks for; the specs themselves are not.
run_specs_nginx_asan() {
    ZKLOCK_NGINX_VARIANT=luajit-asan ZKLOCK_NGINX_SANITIZER=$(gcc -print-file-name=libasan.so) \
        ASAN_OPTIONS=${asan_options/detect_leaks=1/detect_leaks=0} UBSAN_OPTIONS=$ubsan_options \
        run_specs luajit luajit "$@"
}

run_specs_valgrind() {
    local runner=(
        valgrind --quiet --error-exitcode=86 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
    )
    run_specs lua5.4 5.4 --tags=valgrind
}

# The module loads, and says what it is; for the Luas that the specs are not run with.
smoke() {
    LUA_PATH="lua/?.lua;lua/?/init.lua;;" LUA_CPATH="build/${1#lua}/?.so;;" "$1" -e '
        local zklock = require "zklock"
        local client = zklock.connect("127.0.0.1:1", { connect_timeout = 0, wait = "blocking" })
        assert(client:state() == "connecting", client:state())
        local lock, message, code = client:mutex("/smoke"):acquire(0.05)
        assert(lock == nil and code == "disconnected", tostring(message) .. " " .. tostring(code))
        client:close()
        assert(client:state() == "closed", client:state())'
}

# What only computes steps back for those that wait for servers, and whose servers have timeouts. (Not for fuzzers, which have their own
# mind about leaks.)
computing() {
    sanitized nice -n 10 "$@"
}

simulate() {
    computing "build/$1/simulate" "${@:2}"
}

# A short fault campaign; its seed is the time unless one is given.
campaign() {
    spec/campaign/run --size short --seconds 10 "$@"
}

# The same random programs in both worlds of the conformance suite: FIRST COUNT. One result.
same_programs() {
    local simulated
    simulated=$(mktemp) || return 1
    computing build/c/conformance_simulated --programs "$@" >"$simulated" &&
        build/c/conformance_real --programs "$@" | diff "$simulated" - | head -n 60
    local results=("${PIPESTATUS[@]}")
    rm -f "$simulated"
    [ "${results[*]}" = "0 0 0" ]
}

export -f same_programs sanitized computing run_units run_specs run_specs_asan run_specs_nginx_asan run_specs_valgrind smoke simulate campaign
export asan_options ubsan_options tsan_options

# Which builds each group needs, and what it runs; the longest first. All that several suites use is built before any of them
# runs: whoever links a module anew takes it away from those who load it at that moment.
builds_for() {
    case $1 in
    c) echo c c-asan c-tsan fuzz ;;
    sim) echo c c-asan ;;
    lua) echo 5.1 5.2 5.3 5.4 luajit 5.4-asan luajit-asan ;;
    nginx-asan) echo luajit luajit-asan ;;
    lint) echo 5.1 5.4 luajit c ;;
    campaign) echo 5.4 luajit ;;
    rock) ;;
    *) echo "tools/test.sh: no such group: $1" >&2 && return 2 ;;
    esac
}

suites_lua() {
    # What is tagged #once tests servers, tools and other clients more than it does Lua.
    suite "specs: Lua 5.4, but those that one Lua is enough for" busted 900 'run_specs lua5.4 5.4 --exclude-tags=once'
    suite "specs: those that one Lua is enough for" busted 900 'run_specs lua5.4 5.4 --tags=once'
    suite "specs: Lua 5.1, but those that one Lua is enough for" busted 900 'run_specs lua5.1 5.1 --exclude-tags=once'
    suite "specs: LuaJIT, but those that one Lua is enough for" busted 900 'run_specs luajit luajit --exclude-tags=once,nginx'
    suite "specs: inside nginx" busted 800 'run_specs luajit luajit --tags=nginx'
    suite "specs under ASan and UBSan" busted 600 'run_specs_asan --tags=asan'
    suite "specs inside nginx under ASan and UBSan" busted 400 'run_specs_nginx_asan --tags=nginxasan'
    suite "specs under valgrind" busted 400 'run_specs_valgrind'
    suite "smoke: Lua 5.2" status 30 'smoke lua5.2'
    suite "smoke: Lua 5.3" status 30 'smoke lua5.3'
}

# All of them; those of the group lua are a choice.
suites_nginx-asan() {
    suite "all specs inside nginx under ASan and UBSan" busted 900 'run_specs_nginx_asan --tags=nginx'
}

suites_campaign() {
    suite "fault campaign: a known seed" ours 240 'campaign --seed 1'
    suite "fault campaign: a seed never seen before" ours 240 'campaign'
}

suites_lint() {
    # What the check "gcc" would build is built by now, with the same warnings.
    suite "lint" ours 900 'nice -n 10 tools/lint.sh layout clang tidy-shipped cppcheck luacheck shellcheck docs'
    suite "the reference, without a warning" status 90 'nice -n 10 tools/docs.sh reference'
}

suites_sim() {
    suite "simulation: broken rules are noticed" ours 600 'simulate c --breaks'
    suite "simulation: known seeds" ours 400 "simulate c --seeds 1 ${ZKLOCK_SEEDS:-2000}"
    suite "simulation: seeds never seen before" ours 200 'simulate c --fresh'
    suite "small worlds in every order" ours 600 'computing build/c/explore'
    suite "small worlds: broken rules are noticed" ours 600 'computing build/c/explore --breaks'
    suite "simulation: allocations that fail" ours 300 "simulate c-asan --memory 20 25"
    suite "simulation: a seed replays exactly" ours 200 'simulate c --replay-check'
    suite "simulation under ASan and UBSan" ours 400 "simulate c-asan --seeds 1 ${ZKLOCK_ASAN_SEEDS:-200}"
    suite "simulation: the simulator itself" ours 200 'computing build/c/sim_selftest'
    suite "the simulation behaves as the cases say" ours 200 'computing build/c/conformance_simulated'
    suite "simulation: single scenes" ours 200 'computing build/c/scenes'
    suite "simulated Lua programs" ours 200 'computing build/c/simulate_lua --seeds 1 500'
    suite "simulated Lua programs never seen before" ours 200 'computing build/c/simulate_lua --fresh 10'
    suite "simulated Lua programs: broken rules are noticed" ours 300 'computing build/c/simulate_lua --breaks'
    suite "simulated Lua programs: a seed replays exactly" ours 200 'computing build/c/simulate_lua --replay-check'
    # Fibers change their stacks, of which the one check of ASan knows nothing.
    suite "simulated Lua programs under ASan and UBSan" ours 300 \
        "asan_options=$asan_options:detect_stack_use_after_return=0 computing build/c-asan/simulate_lua --seeds 1 60"
}

suites_c() {
    suite "C unit tests" cmocka 180 'run_units c'
    suite "the real client and server behave as the simulation says" ours 400 'build/c/conformance_real'
    suite "random programs are told the same by the simulation and by real servers" status 400 'same_programs 1 100'
    suite "C unit tests under ASan and UBSan" cmocka 240 'run_units c-asan'
    suite "C unit tests under TSan" cmocka 240 'run_units c-tsan'
    suite "fuzzers, a few seconds each" status 180 'nice -n 10 tools/fuzz.sh 5'
}

suites_rock() {
    suite "luarocks make and require" ours 300 'tools/test-rock.sh'
}

[ $# -gt 0 ] || set -- lint lua campaign sim c rock
variants=$(for group; do builds_for "$group" || exit 2; done) || exit 2
if [ -n "$variants" ]; then
    # shellcheck disable=SC2086 # one word each
    variants=$(printf '%s\n' $variants | sort -u | tr '\n' ' ')
    suite "build: $variants" status 400 "tools/build.sh $variants"
    settle
fi
# Without what could not be built, the others would fail for that alone.
if ! grep -qs '^[0-9]* [1-9]' "$logs"/build-*.result; then
    for group; do
        "suites_$group"
    done
    settle
fi

# digest LOG: what failed, in few lines; whoever sees only the end of all output has to know what it was.
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

echo
for result in "$logs"/*.result; do
    read -r _ failed name <"$result"
    [ "$failed" = 0 ] || { echo "not ok: $name" && digest "${result%.result}"; }
done
echo "took $((SECONDS - began)) s"
awk '{ passed += $1; failed += $2 } END { print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 }' "$logs"/*.result
