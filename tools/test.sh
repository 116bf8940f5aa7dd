#!/usr/bin/env bash
#
# Runs the test suites, several at a time, and adds up their results.
#
# The last line is `N passed, N failed`, and the exit status agrees with it.
#
# Usage: tools/test.sh [GROUP…]
#
#   quick       the specs of behaviour in virtual time with Lua 5.4, and 300 schedules of the simulation
#   lint        layout, static analysis, documentation
#   virtual     the specs of behaviour in virtual time: Lua 5.1, 5.5, LuaJIT; Lua 5.4 under sanitizers
#   contract    behaviour that only real servers, processes and nginx show
#   sim         the simulation of the engine and of Lua programs
#   c           the C unit tests under sanitizers
#   fuzz        each fuzzer for some seconds
#   rock        luarocks
#   package     the source rock of the release, and the Debian package in a clean system
#   real        all specs on real servers: Lua 5.1 to 5.5 and LuaJIT, sanitizers, valgrind
#   campaign    random faults on real servers, for some seconds
#   long        longer campaigns of every size, more seeds, more fuzzing, clang's analyser, ThreadSanitizer inside the C client, the
#               live view in a browser
#   nginx-asan  all specs inside nginx, its workers under AddressSanitizer
#
# Lua 5.5 is left out, with a line at the end, where it is not installed with its headers and with busted; so is the smoke test of
# 5.2 or 5.3.
#
# Without an argument: lint virtual contract sim c fuzz rock, which must pass before a change lands. "all": all of them.

set -u
cd "$(dirname "$0")/.." || exit 1

logs=build/test-logs
# shellcheck source=tools/suites.sh
. tools/suites.sh
clear_logs

# ---- Suites ------------------------------------------------------------------------------------------------------------

# The module loads and works in principle; for the Luas that the specs are not run with.
smoke() {
    LUA_PATH="lua/?.lua;lua/?/init.lua;;" LUA_CPATH="build/$(variant_of "$1")/?.so;;" "$1" -e '
        local zklock = require "zklock"
        local client = zklock.connect("127.0.0.1:1", { connect_timeout = 0, wait = "blocking" })
        assert(client:state() == "connecting", client:state())
        local lock, message, code = client:mutex("/smoke"):acquire(0.05)
        assert(lock == nil and code == "disconnected", tostring(message) .. " " .. tostring(code))
        assert(client:close(60))
        assert(client:state() == "closed", client:state())' && smoke_command "$1"
}

# The same for the command: its modules load, and it starts its guardian and ends it when there is no server.
smoke_command() {
    local command=(env LUA_PATH="lua/?.lua;lua/?/init.lua;;" LUA_CPATH="build/$(variant_of "$1")/?.so;;" ZKLOCK_CONFIG=
        "$1" lua/zklock/cli/main.lua) status=0
    "${command[@]}" completion bash | grep -- --on-lost >/dev/null || return 1
    "${command[@]}" run --servers 127.0.0.1:1 --connect-timeout 0.05 /smoke -- true 2>/dev/null || status=$?
    [ "$status" = 121 ]
}

simulate() {
    computing "build/$1/simulate" "${@:2}"
}

# A short fault campaign; without --seed its seed is the time.
campaign() {
    spec/campaign/run --size short "$@"
}

export -f smoke smoke_command simulate campaign variant_of

# The builds and suites of each group, the longest first. All builds are made before any suite runs: linking a module anew takes it
# away from programs that load it at that moment. What no suite runs is not built for those that must pass. Even so gcc compiles each
# source for them but those of fuzzers (and the unit tests only for sanitizers, so with fewer warnings than in the group `long`), and
# clang compiles fuzzers, with warnings as errors.
builds_for() {
    case $1 in
    quick) echo 5.4 c:simulate,virtual-lua5.4 ;;
    c) echo c-asan:unit_programs c-tsan ;;
    fuzz) echo fuzz ;;
    sim) echo c:simulate,explore,scenes,sim_selftest,simulate_lua,conformance_simulated \
        c-asan:simulate,simulate_lua,conformance_simulated ;;
    virtual) echo "c:virtual-lua5.1,virtual-luajit${newest:+,virtual-$newest}" c-asan:virtual-lua5.4 ;;
    contract) echo 5.1 5.2 5.3 5.4 "${newest#lua}" luajit c:conformance_real,conformance_simulated ;;
    real) echo 5.1 5.2 5.3 5.4 "${newest#lua}" luajit 5.4-asan luajit-asan ;;
    nginx-asan) echo luajit luajit-asan ;;
    lint) echo 5.1 5.4 luajit ;;
    campaign) echo 5.4 luajit ;;
    long) echo 5.4 luajit c c-asan fuzz clang ;;
    rock | package) ;;
    *) echo "tools/test.sh: no such group: $1" >&2 && return 2 ;;
    esac
}

# Seconds for a suite that must pass before a change lands. The limit ends a hang, and is many times what a suite takes: a busy or
# slow machine must not turn a run red.
ample=2700

# Reads builds, and prints one for each variant: with all targets if one of its builds has none.
merge_builds() {
    awk -F: '
        { variant[$1] = 1; if ($2 == "") whole[$1] = 1; else targets[$1] = targets[$1] "," $2 }
        END { for (name in variant) print name (whole[name] ? "" : ":" substr(targets[name], 2)) }' | sort
}

# These only compute, and run at a lower priority than suites that wait for servers, whose sessions have timeouts.
suites_quick() {
    virtual lua5.4
    suite "simulation: known seeds" ours "$ample" 'simulate c --seeds 1 300'
}

suites_virtual() {
    suite "behaviour in virtual time: lua5.4, under ASan and UBSan" busted "$ample" 'nice -n 5 tools/specs.sh virtual-asan'
    virtual luajit 3.9.6
    virtual lua5.1 3.7.2
    [ -z "$newest" ] || virtual "$newest"
}

# virtual LUA [VERSION]: with simulated servers, and a simulated C client, of this version.
virtual() {
    suite "behaviour in virtual time: $1${2:+, ZooKeeper $2}" busted "$ample" \
        "ZKLOCK_SIMULATED_VERSION=${2:-} ZKLOCK_SIMULATED_CLIENT=${2:-} nice -n 5 tools/specs.sh virtual --lua $1"
}

# contract NAME [LUA]: the file of that name, or the files of a family, whose names begin with it. A family runs on one server.
# NAME/I: every fourth file of a family, from the I'th one on.
contract() {
    local name=${1%/*} part=${1#*/} file found=() server='' i
    for file in spec/contract/"$name"_spec.lua spec/contract/"$name"_*_spec.lua spec/campaign/"$name"_spec.lua; do
        [ ! -e "$file" ] || found+=("$file")
    done
    [ ${#found[@]} = 1 ] || server="on_one_server "
    if [ "$part" != "$name" ]; then
        for i in "${!found[@]}"; do
            [ $((i % 4 + 1)) = "$part" ] || unset "found[i]"
        done
        found=("${found[@]}")
    fi
    suite "contract: $1${2:+, $2}" busted "$ample" \
        "${server}tools/specs.sh $(contract_arguments "${found[0]}" "${2:-lua5.4}") --exclude-tags=long ${found[*]}"
}

# on_one_server COMMAND…: like the server that specs start for themselves, it removes no containers.
on_one_server() {
    tools/zookeeper run --java-option -Dznode.container.checkIntervalMs=3600000 -- "$@"
}

# on_newest_server COMMAND…: on the server of Debian's testing, where it can be fetched.
on_newest_server() {
    local found status
    found=$(tools/servers.sh testing 2>&1)
    status=$?
    if [ $status = 3 ]; then
        left_out "the newest server" "${found##*$'\n'}"
    elif [ $status != 0 ]; then
        echo "$found"
        return 1
    else
        ZOOKEEPER_CLASSPATH=$PWD/build/servers/testing/server.jar "$@"
    fi
}

export -f on_one_server on_newest_server

# The contracts that last longest, and so begin first. Those of the first list are four suites each.
longest=(openresty command)
long=(examples ensemble tools foreign security process)

# The names of all other contracts, without those of the loops.
other_contracts() {
    find spec/contract spec/campaign -name '*_spec.lua' -printf '%f\n' | sed -E 's/_spec\.lua$//' |
        sed -E 's/^(command|docs|foreign|loops|openresty|security|tools)_.*/\1/' | LC_ALL=C sort -u |
        grep -vxF -e loops "${longest[@]/#/-e}" "${long[@]/#/-e}"
}

suites_contract() {
    local name lua
    for name in "${longest[@]/%//1}" "${longest[@]/%//2}" "${longest[@]/%//3}" "${longest[@]/%//4}" "${long[@]}"; do
        contract "$name"
    done
    # Loops differ between the Luas; otherwise one Lua is enough.
    for lua in lua5.4 lua5.1 luajit $newest; do
        contract loops "$lua"
    done
    contract command_run luajit
    suite "behaviour that only the real world shows" busted "$ample" 'on_one_server tools/specs.sh real --tags=real spec/behaviour'
    for name in $(other_contracts); do
        contract "$name"
    done
    suite "the real client and server behave as the simulation says" ours "$ample" 'build/c/conformance_real'
    suite "random programs are told the same by the simulation and by real servers" status "$ample" 'same_programs 1 50'
    # What differs by version (spec/support/versions.c); make test-servers has the rest.
    suite "the newest server behaves as the simulation says" ours "$ample" 'on_newest_server build/c/conformance_real'
    suite "specs on the newest server" busted "$ample" "on_newest_server on_one_server tools/specs.sh real \
        spec/contract/security_acl_spec.lua spec/behaviour/semaphore_others_spec.lua spec/behaviour/strange_nodes_spec.lua"
    for lua in lua5.2 lua5.3 $newest; do
        if has_lua "$lua"; then
            suite "smoke: $lua" status "$ample" "smoke $lua"
        else
            suite "smoke: $lua" status 60 "left_out 'smoke: $lua' 'this system has no modules for it'"
        fi
    done
}

# Specs tagged #once test servers, tools and other clients more than Lua.
suites_real() {
    suite "real servers: all contracts, Lua 5.4" busted 5400 'env ZKLOCK_TURNS=600 tools/specs.sh real spec/contract spec/campaign'
    suite "real servers: Lua 5.4" busted 5400 'tools/specs.sh real spec/behaviour'
    suite "real servers: Lua 5.1" busted 5400 'tools/specs.sh real --lua lua5.1 --exclude-tags=once'
    suite "real servers: Lua 5.2" busted 5400 'tools/specs.sh real --lua lua5.2 --exclude-tags=once'
    suite "real servers: Lua 5.3" busted 5400 'tools/specs.sh real --lua lua5.3 --exclude-tags=once'
    [ -z "$newest" ] || suite "real servers: Lua 5.5" busted 5400 'tools/specs.sh real --lua lua5.5 --exclude-tags=once'
    suite "real servers: LuaJIT" busted 5400 'tools/specs.sh real --lua luajit --exclude-tags=once,nginx'
    suite "real servers: under ASan and UBSan" busted 5400 'tools/specs.sh real-asan --tags=asan'
    suite "real servers: inside nginx under ASan and UBSan" busted 5400 'tools/specs.sh nginx-asan --tags=nginxasan'
    suite "real servers: under valgrind" busted 5400 'tools/specs.sh valgrind --tags=valgrind'
}

# All of them; the group real runs a selection.
suites_nginx-asan() {
    suite "all specs inside nginx under ASan and UBSan" busted 5400 'tools/specs.sh nginx-asan --tags=nginx'
}

suites_campaign() {
    suite "fault campaign: a seed never seen before" ours "$ample" 'campaign --seconds 10'
}

suites_lint() {
    # The checks "gcc" and "clang" are left out: clang-tidy reports the warnings of clang, and the builds of all groups those of gcc.
    suite "lint" ours "$ample" 'nice -n 5 tools/lint.sh layout layers tidy-quick cppcheck luacheck shellcheck docs'
    suite "the site, without a warning" status "$ample" 'nice -n 5 tools/docs.sh site'
}

suites_sim() {
    suite "small worlds in every order" ours "$ample" 'computing build/c/explore --jobs 1 --states 15000'
    suite "simulation: broken rules are noticed" ours "$ample" 'simulate c --breaks'
    suite "simulation: known seeds" ours "$ample" "simulate c --seeds 1 ${ZKLOCK_SEEDS:-1000}"
    suite "simulation: clients that read on" ours "$ample" 'simulate c --read-on --seeds 1 500'
    suite "simulation: seeds never seen before" ours "$ample" 'simulate c --fresh --seconds 5'
    suite "small worlds: broken rules are noticed" ours "$ample" 'computing build/c/explore --breaks'
    suite "simulation: allocations that fail" ours "$ample" "simulate c-asan --memory 20 12"
    suite "simulation: a seed replays exactly" ours "$ample" 'simulate c --replay-check'
    suite "simulation under ASan and UBSan" ours "$ample" "simulate c-asan --seeds 1 ${ZKLOCK_ASAN_SEEDS:-200}"
    suite "simulation: the simulator itself" ours "$ample" 'computing build/c/sim_selftest'
    suite "the simulation behaves as the cases say" ours "$ample" 'computing build/c/conformance_simulated'
    suite "the simulation behaves as the cases say, under ASan and UBSan, as servers of 3.9.6" ours "$ample" \
        'ZKLOCK_SIMULATED_VERSION=3.9.6 computing build/c-asan/conformance_simulated --seeds 5'
    suite "the simulation behaves as the cases say, as ZooKeeper 3.7.2" ours "$ample" \
        'ZKLOCK_SIMULATED_VERSION=3.7.2 ZKLOCK_SIMULATED_CLIENT=3.7.2 computing build/c/conformance_simulated'
    suite "simulation: single scenes" ours "$ample" 'computing build/c/scenes'
    suite "simulated Lua programs" ours "$ample" 'computing build/c/simulate_lua --seeds 1 250'
    suite "simulated Lua programs never seen before" ours "$ample" 'computing build/c/simulate_lua --fresh 5'
    suite "simulated Lua programs: broken rules are noticed" ours "$ample" 'computing build/c/simulate_lua --breaks'
    suite "simulated Lua programs: a seed replays exactly" ours "$ample" 'computing build/c/simulate_lua --replay-check'
    # Fibers change their stacks, which this one check of ASan does not support.
    suite "simulated Lua programs under ASan and UBSan" ours "$ample" \
        "asan_options=$asan_options:detect_stack_use_after_return=0 computing build/c-asan/simulate_lua --seeds 1 60"
}

suites_c() {
    # test_numbers is about threads, and sends 100 000 requests.
    suite "C unit tests under ASan and UBSan" cmocka "$ample" 'run_units c-asan test_numbers'
    suite "C unit tests under TSan" cmocka "$ample" 'run_units c-tsan'
}

suites_fuzz() {
    suite "fuzzers, a few seconds each" status "$ample" 'nice -n 5 tools/fuzz.sh 3'
}

suites_rock() {
    suite "luarocks make and require" ours "$ample" 'tools/test-rock.sh'
}

# Needs Debian's archive.
suites_package() {
    suite "the source rock, on every Lua" ours 5400 'nice -n 5 tools/test-rock.sh packed'
    suite "the Debian package in a clean system" ours 5400 'nice -n 5 tools/test-deb.sh'
}

# Kinds of faults that take minutes to occur.
suites_long() {
    local lua
    for lua in lua5.2 lua5.3 lua5.4; do
        virtual "$lua"
    done
    for lua in lua5.4 luajit; do
        suite "an error at every instruction: $lua" busted 1200 \
            "nice -n 5 env ZKLOCK_SWEEP=1 tools/specs.sh virtual --lua $lua spec/behaviour/interrupt_spec.lua"
        suite "an error at every instruction, on real servers: $lua" busted 5400 \
            "env ZKLOCK_SWEEP=1 tools/specs.sh real --lua $lua spec/behaviour/interrupt_spec.lua"
    done
    suite "an error at every instruction, under ASan and UBSan" busted 5400 \
        'nice -n 5 env ZKLOCK_SWEEP=1 tools/specs.sh virtual-asan spec/behaviour/interrupt_spec.lua'
    suite "fault campaign: a known seed" ours 240 'campaign --seconds 10 --seed 1'
    suite "fault campaign: a minute with everything" ours 600 'spec/campaign/run --size full --seconds 60'
    suite "fault campaign: a minute of links that stall" ours 600 'spec/campaign/run --size stalled --seconds 60'
    suite "fault campaign: a minute without leases, in which the checks notice it" ours 600 \
        'spec/campaign/run --size control --seconds 60'
    suite "fault campaign: a minute of the same with leases" ours 600 'spec/campaign/run --size leased --seconds 60'
    for lua in lua5.4 luajit; do
        suite "20 rounds of each way to lose a command: $lua" busted 5400 \
            "env ZKLOCK_ROUNDS=20 tools/specs.sh real --lua $lua spec/contract/command_guarantee_spec.lua"
    done
    suite "500 random programs are told the same by the simulation and by real servers" status 5400 'same_programs 1 500'
    suite "the live view in a browser" ours 5400 'tools/browser.sh test'
    suite "C unit tests" cmocka 180 'run_units c'
    suite "100000 requests under ASan and UBSan" cmocka 5400 'run_unit build/c-asan/unit/test_numbers'
    suite "C unit tests with the C client under TSan" cmocka 5400 'nice -n 5 tools/rebuilt-client.sh thread'
    suite "100000 locks inside nginx" status 5400 'tools/soak-nginx.sh'
    suite "lint: clang's analyser" ours 5400 'nice -n 5 tools/lint.sh tidy'
    suite "small worlds in every order, all of each" ours 5400 'computing build/c/explore --jobs 1'
    suite "simulation: 20000 known seeds" ours 5400 'simulate c --seeds 1 20000'
    suite "simulation: five minutes of seeds never seen before" ours 600 'simulate c --fresh --seconds 300'
    suite "simulation: broken rules are noticed by seeds never seen before" ours 5400 'simulate c --breaks --fresh --limit 40000'
    suite "simulation: 2000 seeds under ASan and UBSan" ours 5400 'simulate c-asan --seeds 1 2000'
    suite "simulation: more allocations that fail" ours 5400 'simulate c-asan --memory 40 50'
    suite "simulated Lua programs: 2000 of them" ours 5400 'computing build/c/simulate_lua --seeds 1 2000'
    suite "simulated Lua programs: a minute of new ones" ours 300 'computing build/c/simulate_lua --fresh 60'
    suite "fuzzers, a minute each" status 1200 'nice -n 5 tools/fuzz.sh 60'
}

# lane SLOTS GROUP…: runs those of these groups that are wanted, SLOTS suites at a time, in the background. Some wait for servers
# most of the time, others only compute: each kind has a lane.
lane() {
    local slots=$1 group
    shift
    # If a lane is killed, its suites that have not begun count as one failure.
    local name="the suites of $*"
    printf '%s\n' "$name" >"$(log_of "$name").begun"
    (
        for group; do
            case " $wanted " in *" $group "*) "suites_$group" ;; esac
        done
        settle
        rm "$(log_of "$name").begun"
    ) &
}

must=(lint virtual contract sim c fuzz rock)
[ $# -gt 0 ] || set -- must
for group; do
    case $group in
    must) set -- "$@" "${must[@]}" ;;
    all) set -- "$@" "${must[@]}" campaign real long nginx-asan package ;;
    *) set -- "$@" "$group" ;;
    esac
    shift
done
wanted=$*
newest=lua5.5
if ! has_lua "$newest"; then
    newest=
    case " $wanted " in *" virtual "* | *" contract "* | *" real "* | *" package "*)
        suite "Lua 5.5" status 60 "left_out 'Lua 5.5' 'it is not installed with its headers and with busted'"
        ;;
    esac
fi
variants=$(for group; do builds_for "$group" || exit 2; done) || exit 2
if [ -n "$variants" ]; then
    # shellcheck disable=SC2086 # one word each
    variants=$(printf '%s\n' $variants | merge_builds | tr '\n' ' ')
    suite "build" status "$ample" "tools/build.sh $variants"
    settle
fi
# After a failed build the suites would fail for that reason only.
if [ -z "$variants" ] || well; then
    lane "$slots" contract c campaign real nginx-asan
    lane "$(nproc)" quick lint sim virtual fuzz rock long package
    wait
fi

summary
