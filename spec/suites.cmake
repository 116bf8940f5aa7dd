# The test suites, for CTest. They build what they need:
#
#   cmake --preset suites                             # once, and when there is a new file of specs
#   ctest --preset virtual                            # a group: one of the labels below
#   ctest --test-dir build/test -R 'loops, luajit'    # suites by their names, which -N lists
#
# tools/test.sh runs groups, and adds up what has passed and failed in all suites.

# Suites that only compute run at a lower priority than those that wait for servers, whose sessions have timeouts; and no more of
# them at a time than there are processors.
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
file(WRITE ${CMAKE_BINARY_DIR}/processors.json
    "{\"version\": {\"major\": 1, \"minor\": 0}, \"local\": [{\"processors\": [{\"id\": \"0\", \"slots\": ${processors}}]}]}\n")

# group(LABEL KIND [BUILD…]): begins a group of suites, of the kind `computes` or `waits`, and says what tools/build.sh builds for them.
macro(group label kind_of_suites)
    set(group ${label})
    set(kind ${kind_of_suites})
    set(build)
    if(${ARGC} GREATER 2)
        string(JOIN " " variants ${ARGN})
        suite("build for ${label}" status "tools/build.sh ${variants}")
        set(build "build for ${label}")
        list(APPEND builds ${build})
        set_tests_properties(${build} PROPERTIES FIXTURES_SETUP ${build})
    endif()
endmacro()

# suite(NAME COUNTER COMMAND [LABEL…]): see tools/suite. Of a kind those run first that stand first: the longest. A time limit ends a
# hang, and is many times what a suite takes: a busy or slow machine must not turn a run red.
function(suite name counter command)
    set(labels ${group} ${ARGN})
    if(group MATCHES "^(lint|virtual|contract|sim|c|fuzz|rock)$")
        list(APPEND labels must all)
    elseif(group MATCHES "^(campaign|real|long|nginx-asan|package)$")
        list(APPEND labels all)
    endif()
    set_property(GLOBAL APPEND PROPERTY ${kind} ${name})
    get_property(earlier GLOBAL PROPERTY ${kind})
    list(LENGTH earlier place)
    math(EXPR cost "1000 - ${place}")
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tools/suite ${name} ${counter} ${command})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" COST ${cost} TIMEOUT 5400 SKIP_RETURN_CODE 77
        FIXTURES_REQUIRED "${build}")
    if(kind STREQUAL "computes")
        set_tests_properties(${name} PROPERTIES RESOURCE_GROUPS processors:1)
    endif()
endfunction()

# Sets has_LUA if the module can be built for a Lua, and specs be run with it.
foreach(lua IN ITEMS lua5.2 lua5.3 lua5.5)
    execute_process(COMMAND sh -c "pkg-config --exists ${lua} && ${lua} -e 'require \"busted.core\"'"
        RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
        set(has_${lua} ON)
    endif()
endforeach()

# virtual(LUA [VERSION]): with simulated servers, and a simulated C client, of this version.
function(virtual lua)
    set(version ${ARGN})
    string(JOIN ", ZooKeeper " title "behaviour in virtual time: ${lua}" ${ARGN})
    suite(${title} busted
        "ZKLOCK_SIMULATED_VERSION=${version} ZKLOCK_SIMULATED_CLIENT=${version} nice -n 5 tools/specs.sh virtual --lua ${lua}")
endfunction()

# testing(LUA): the same specs with zklock.testing, without those that spec/virtual/not_in_testing.lua lists.
function(testing lua)
    suite("behaviour with zklock.testing: ${lua}" busted "nice -n 5 tools/specs.sh testing --lua ${lua}")
endfunction()

# contract(NAME [LUA]): the file of that name, or the files of a family, whose names begin with it. A family runs on one server.
# NAME/I: every fourth file of a family, from the I'th one on. Inside nginx there is LuaJIT.
function(contract name)
    string(REGEX MATCH "^([^/]*)/?(.*)$" whole ${name})
    set(family ${CMAKE_MATCH_1})
    set(part ${CMAKE_MATCH_2})
    file(GLOB files RELATIVE ${CMAKE_SOURCE_DIR} spec/contract/${family}_spec.lua spec/contract/${family}_*_spec.lua
        spec/campaign/${family}_spec.lua)
    set(lua lua5.4 ${ARGN})
    list(GET lua -1 lua)
    if(family STREQUAL "openresty")
        set(lua "luajit --tags=nginx")
    endif()
    set(command "tools/specs.sh real --lua ${lua} --exclude-tags=long")
    list(LENGTH files count)
    if(count GREATER 1)
        string(PREPEND command "on_one_server ")
    endif()
    set(i 0)
    foreach(file IN LISTS files)
        math(EXPR turn "${i} % 4 + 1")
        math(EXPR i "${i} + 1")
        if("${part}" STREQUAL "" OR part EQUAL turn)
            string(APPEND command " ${file}")
        endif()
    endforeach()
    string(JOIN ", " title "contract: ${name}" ${ARGN})
    suite(${title} busted ${command})
endfunction()

# ---- The specs of behaviour in virtual time, and 300 schedules: the first green run --------------------------------------

group(quick computes 5.4 c:simulate,virtual-lua5.4)
virtual(lua5.4)
testing(lua5.4)
suite("simulation: 300 known seeds" ours "computing build/c/simulate --seeds 1 300")

# ---- Before a change is merged: the label `must`. gcc compiles each source, and clang the fuzzers, with warnings as errors ----

# Layout, static analysis, documentation. Without the checks "gcc" and "clang": clang-tidy reports the warnings of clang.
group(lint computes 5.1 5.4 luajit)
suite("lint" ours "nice -n 5 tools/lint.sh layout layers tidy-quick cppcheck luacheck shellcheck docs")
suite("the site, without a warning" status "nice -n 5 tools/docs.sh site")

# The specs of behaviour in virtual time.
if(has_lua5.5)
    set(newest 5.5)
    set(newest_lua lua5.5)
    set(newest_virtual c:virtual-lua5.5)
endif()
group(virtual computes c:virtual-lua5.1,virtual-luajit ${newest_virtual} c-asan:virtual-lua5.4)
suite("behaviour in virtual time: lua5.4, under ASan and UBSan" busted "nice -n 5 tools/specs.sh virtual-asan")
virtual(luajit 3.9.6)
virtual(lua5.1 3.7.2)
testing(luajit)
testing(lua5.1)
if(has_lua5.5)
    virtual(lua5.5)
else()
    suite("Lua 5.5" status "left_out 'Lua 5.5' 'it is not installed with its headers and with busted'" contract real package)
endif()

# The C unit tests. Many start servers, whose answers come late if more of them run than there are processors. test_system waits for
# sessions to expire.
file(GLOB units RELATIVE ${CMAKE_SOURCE_DIR}/spec/unit spec/unit/test_*.c)
list(TRANSFORM units REPLACE "\\.c$" "")
function(unit_tests title command)
    foreach(name IN LISTS units)
        set(kind computes)
        if(name STREQUAL "test_system")
            set(kind waits)
        endif()
        if(NOT name IN_LIST ARGN)
            suite("${title}: ${name}" cmocka "${command}/unit/${name}")
        endif()
    endforeach()
endfunction()
group(c computes c-asan:unit_programs c-tsan)
unit_tests("C under ASan and UBSan" "sanitized build/c-asan" test_numbers) # which is about threads, and sends 100 000 requests
unit_tests("C under TSan" "sanitized build/c-tsan")

# Behaviour that only real servers, processes and nginx show. Loops differ between the Luas; otherwise one Lua is enough.
group(contract waits 5.1 5.2 5.3 5.4 ${newest} luajit c:conformance_real,conformance_simulated)
set(longest openresty command examples ensemble tools foreign security process)
foreach(name IN ITEMS openresty/1 openresty/2 openresty/3 openresty/4 command/1 command/2 command/3 command/4
        examples ensemble tools foreign security process)
    contract(${name})
endforeach()
foreach(lua IN ITEMS lua5.4 lua5.1 luajit ${newest_lua})
    contract(loops ${lua})
endforeach()
contract(command_run luajit)
suite("behaviour that only the real world shows" busted "on_one_server tools/specs.sh real --tags=real spec/behaviour")
file(GLOB others RELATIVE ${CMAKE_SOURCE_DIR} spec/contract/*_spec.lua spec/campaign/*_spec.lua)
list(TRANSFORM others REPLACE "^.*/(.*)_spec\\.lua$" "\\1")
list(TRANSFORM others REPLACE "^(command|docs|foreign|loops|openresty|security|tools)_.*" "\\1")
list(REMOVE_DUPLICATES others)
list(REMOVE_ITEM others loops ${longest})
foreach(name IN LISTS others)
    contract(${name})
endforeach()
suite("the real client and server behave as the simulation says" ours "build/c/conformance_real")
suite("random programs are told the same by the simulation and by real servers" status "same_programs 1 50")
# What differs by version (spec/support/versions.c); the label `servers` has the rest.
suite("the newest server behaves as the simulation says" ours "on_server testing build/c/conformance_real")
suite("specs on the newest server" busted "on_server testing on_one_server tools/specs.sh real \
spec/contract/security_acl_spec.lua spec/behaviour/semaphore_others_spec.lua spec/behaviour/strange_nodes_spec.lua")
# The module loads and works in principle, for the Luas that the specs are not run with.
foreach(lua IN ITEMS lua5.2 lua5.3 ${newest_lua})
    if(has_${lua})
        suite("smoke: ${lua}" status "smoke ${lua}")
    else()
        suite("smoke: ${lua}" status "left_out 'smoke: ${lua}' 'this system has no modules for it'")
    endif()
endforeach()

# The simulation of the engine and of Lua programs.
group(sim computes c:simulate,explore,scenes,sim_selftest,simulate_lua,conformance_simulated
    c-asan:simulate,simulate_lua,conformance_simulated)
suite("small worlds in every order" ours "computing build/c/explore --jobs 1 --states 15000")
suite("simulation: broken rules are noticed" ours "computing build/c/simulate --breaks")
suite("simulation: known seeds" ours "computing build/c/simulate --seeds 1 \${ZKLOCK_SEEDS:-1000}")
suite("simulation: clients that read on" ours "computing build/c/simulate --read-on --seeds 1 500")
suite("simulation: seeds never seen before" ours "computing build/c/simulate --fresh --seconds 5")
suite("small worlds: broken rules are noticed" ours "computing build/c/explore --breaks")
suite("simulation: allocations that fail" ours "computing build/c-asan/simulate --memory 20 12")
suite("simulation: a seed replays exactly" ours "computing build/c/simulate --replay-check")
suite("simulation under ASan and UBSan" ours "computing build/c-asan/simulate --seeds 1 \${ZKLOCK_ASAN_SEEDS:-200}")
suite("simulation: the simulator itself" ours "computing build/c/sim_selftest")
suite("the simulation behaves as the cases say" ours "computing build/c/conformance_simulated")
suite("the simulation behaves as the cases say, under ASan and UBSan, as servers of 3.9.6" ours
    "ZKLOCK_SIMULATED_VERSION=3.9.6 computing build/c-asan/conformance_simulated --seeds 5")
suite("the simulation behaves as the cases say, as ZooKeeper 3.7.2" ours
    "ZKLOCK_SIMULATED_VERSION=3.7.2 ZKLOCK_SIMULATED_CLIENT=3.7.2 computing build/c/conformance_simulated")
suite("simulation: single scenes" ours "computing build/c/scenes")
suite("simulated Lua programs" ours "computing build/c/simulate_lua --seeds 1 250")
suite("simulated Lua programs never seen before" ours "computing build/c/simulate_lua --fresh 5")
suite("simulated Lua programs: broken rules are noticed" ours "computing build/c/simulate_lua --breaks")
suite("simulated Lua programs: a seed replays exactly" ours "computing build/c/simulate_lua --replay-check")
# Fibers change their stacks, which this one check of ASan does not support.
suite("simulated Lua programs under ASan and UBSan" ours
    "asan_options=\$asan_options:detect_stack_use_after_return=0 computing build/c-asan/simulate_lua --seeds 1 60")

group(fuzz computes fuzz)
suite("fuzzers, a few seconds each" status "nice -n 5 tools/fuzz.sh 3")

group(rock computes)
suite("luarocks make and require" ours "tools/test-rock.sh")

# ---- The label `all` has these, too -------------------------------------------------------------------------------------

# The source rock of the release, and the Debian package in a clean system. Needs Debian's archive.
group(package computes)
suite("the source rock, on every Lua" ours "nice -n 5 tools/test-rock.sh packed")
suite("the Debian package in a clean system" ours "nice -n 5 tools/test-deb.sh")

# All specs on real servers. Those tagged #once test servers, tools and other clients more than Lua.
group(real waits 5.1 5.2 5.3 5.4 ${newest} luajit 5.4-asan luajit-asan)
suite("real servers: all contracts, Lua 5.4" busted "ZKLOCK_TURNS=600 tools/specs.sh real spec/contract spec/campaign")
suite("real servers: Lua 5.4" busted "tools/specs.sh real spec/behaviour")
foreach(lua IN ITEMS lua5.1 lua5.2 lua5.3 ${newest_lua})
    suite("real servers: ${lua}" busted "tools/specs.sh real --lua ${lua} --exclude-tags=once")
endforeach()
suite("real servers: LuaJIT" busted "tools/specs.sh real --lua luajit --exclude-tags=once,nginx")
suite("real servers: under ASan and UBSan" busted "tools/specs.sh real-asan --tags=asan")
suite("real servers: inside nginx under ASan and UBSan" busted "tools/specs.sh nginx-asan --tags=nginxasan")
suite("real servers: under valgrind" busted "tools/specs.sh valgrind --tags=valgrind")

# The group real has a selection.
group(nginx-asan waits luajit luajit-asan)
suite("all specs inside nginx under ASan and UBSan" busted "tools/specs.sh nginx-asan --tags=nginx")

# Random faults on real servers, for some seconds. Without --seed the seed is the time.
group(campaign waits 5.4 luajit)
suite("fault campaign: a seed never seen before" ours "spec/campaign/run --size short --seconds 10")

# Longer campaigns of every size, more seeds, more fuzzing, clang's analyser, ThreadSanitizer inside the C client, the live view in
# a browser.
group(long computes 5.4 luajit c c-asan fuzz clang)
virtual(lua5.2)
virtual(lua5.3)
set_property(TEST "behaviour in virtual time: lua5.4" APPEND PROPERTY LABELS long all) # of the group quick
foreach(lua IN ITEMS lua5.4 luajit)
    suite("an error at every instruction: ${lua}" busted
        "ZKLOCK_SWEEP=1 nice -n 5 tools/specs.sh virtual --lua ${lua} spec/behaviour/interrupt_spec.lua")
    suite("an error at every instruction, on real servers: ${lua}" busted
        "ZKLOCK_SWEEP=1 tools/specs.sh real --lua ${lua} spec/behaviour/interrupt_spec.lua")
endforeach()
suite("an error at every instruction, under ASan and UBSan" busted
    "ZKLOCK_SWEEP=1 nice -n 5 tools/specs.sh virtual-asan spec/behaviour/interrupt_spec.lua")
suite("fault campaign: a known seed" ours "spec/campaign/run --size short --seconds 10 --seed 1")
suite("fault campaign: a minute with everything" ours "spec/campaign/run --size full --seconds 60")
suite("fault campaign: a minute of links that stall" ours "spec/campaign/run --size stalled --seconds 60")
suite("fault campaign: a minute without leases, in which the checks notice it" ours "spec/campaign/run --size control --seconds 60")
suite("fault campaign: a minute of the same with leases" ours "spec/campaign/run --size leased --seconds 60")
foreach(lua IN ITEMS lua5.4 luajit)
    suite("20 rounds of each way to lose a command: ${lua}" busted
        "ZKLOCK_ROUNDS=20 tools/specs.sh real --lua ${lua} spec/contract/command_guarantee_spec.lua")
endforeach()
suite("500 random programs are told the same by the simulation and by real servers" status "same_programs 1 500")
suite("the live view in a browser" ours "tools/browser.sh test")
unit_tests("C" build/c)
suite("100000 requests under ASan and UBSan" cmocka "sanitized build/c-asan/unit/test_numbers")
suite("C unit tests with the C client under TSan" cmocka "nice -n 5 tools/rebuilt-client.sh thread")
suite("100000 locks inside nginx" status "tools/soak-nginx.sh")
suite("lint: clang's analyser" ours "nice -n 5 tools/lint.sh tidy")
suite("small worlds in every order, all of each" ours "computing build/c/explore --jobs 1")
suite("simulation: 20000 known seeds" ours "computing build/c/simulate --seeds 1 20000")
suite("simulation: five minutes of seeds never seen before" ours "computing build/c/simulate --fresh --seconds 300")
suite("simulation: broken rules are noticed by seeds never seen before" ours
    "computing build/c/simulate --breaks --fresh --limit 40000")
suite("simulation: 2000 seeds under ASan and UBSan" ours "computing build/c-asan/simulate --seeds 1 2000")
suite("simulation: more allocations that fail" ours "computing build/c-asan/simulate --memory 40 50")
suite("simulated Lua programs: 2000 of them" ours "computing build/c/simulate_lua --seeds 1 2000")
suite("simulated Lua programs: a minute of new ones" ours "computing build/c/simulate_lua --fresh 60")
suite("fuzzers, a minute each" status "nice -n 5 tools/fuzz.sh 60")

# ---- Alone: other servers, other machines --------------------------------------------------------------------------------

# Several versions of the ZooKeeper server beside each other, of which tools/servers.sh fetches some; and ensembles of several
# versions, of which one server after the other is upgraded under load.
group(servers computes 5.4 c:conformance_real,conformance_simulated)
foreach(server IN ITEMS installed trixie testing)
    suite("${server}: behaviour" busted "on_server ${server} tools/specs.sh real spec/behaviour" ${server} behaviour)
    foreach(name IN ITEMS security tls quota lost_acl command_doctor ensemble)
        file(GLOB files RELATIVE ${CMAKE_SOURCE_DIR} spec/contract/${name}_spec.lua spec/contract/${name}_*_spec.lua)
        string(JOIN " " files ${files})
        suite("${server}: ${name}" busted "on_server ${server} tools/specs.sh real --exclude-tags=long ${files}" ${server} contracts)
    endforeach()
    suite("${server}: conformance, cases" ours "on_server ${server} build/c/conformance_real" ${server} conformance)
    suite("${server}: conformance, simulated" ours
        "on_server ${server} computing build/c/conformance_simulated" ${server} conformance)
    suite("${server}: conformance, programs" status "on_server ${server} same_programs 1 50" ${server} conformance)
endforeach()
suite("mixed versions" busted "tools/specs.sh real spec/contract/versions_spec.lua" mixed)

# Compiled for arm64 by gcc, and run by qemu-user (tools/arm64.sh). Servers, and all programs but Lua, are this machine's.
group(arm64 computes c-arm64:unit_programs,virtual-lua5.4,virtual-luajit,conformance_real 5.4-arm64 luajit-arm64)
unit_tests("arm64, units" "on_arm64 tools/arm64.sh build/c-arm64" test_process)
suite("arm64, units: test_process" status
    "left_out 'test_process, and zklock run' 'qemu-user has no clone() of a process that sends no signal at its end'")
foreach(lua IN ITEMS lua5.4 luajit)
    suite("arm64, virtual: ${lua}" busted "on_arm64 nice -n 5 tools/specs.sh virtual-arm64 --lua ${lua}")
    suite("arm64, real: ${lua}" busted "on_arm64 tools/specs.sh real-arm64 --lua ${lua} spec/contract/loops_waits_spec.lua \
spec/behaviour/{mutex_exclusion,rwlock_sharing,semaphore_permits,max_hold,session_loss,transaction}_spec.lua")
endforeach()
suite("arm64, real client and server" ours "on_arm64 tools/arm64.sh build/c-arm64/conformance_real")

# Searches for faults, for $ZKLOCK_SOAK seconds. For a quarter of them the simulations run new seeds on every core, each from a seed that
# the others do not reach, and 100 000 locks are taken inside nginx, once at least. Then come campaigns: without leases, where they
# must find violations; with leases, under the same faults; with idle clients and links that stall one way; and with everything.
set(seconds "\${ZKLOCK_SOAK:-60}")
set(quarter "\$((${seconds} / 4 + 1))")
group(soak computes c:simulate,simulate_lua 5.4 luajit)
foreach(core RANGE 1 ${processors})
    suite("soak: new seeds, core ${core}" ours
        "computing build/c/simulate --seconds ${quarter} --seed \$((\$(date +%s) * 1000 + ${core} * 1000000000000))")
endforeach()
set(kind waits) # all at once
suite("soak: new Lua programs" ours "computing build/c/simulate_lua --fresh ${quarter}")
suite("soak: inside nginx" status
    "end=\$((SECONDS + ${quarter})); tools/soak-nginx.sh && while [ \$SECONDS -lt \$end ]; do tools/soak-nginx.sh || exit; done")
foreach(size IN ITEMS control leased stalled)
    suite("soak: campaign, ${size}" ours "campaign ${size} 60")
endforeach()
suite("soak: campaign, full" ours "campaign full ${seconds}")
foreach(size IN ITEMS control leased stalled full)
    set_tests_properties("soak: campaign, ${size}" PROPERTIES RUN_SERIAL ON TIMEOUT 10000000)
endforeach()

# All builds are made before any suite runs: linking a module anew takes it away from programs that load it at that moment.
get_property(suites DIRECTORY PROPERTY TESTS)
list(REMOVE_ITEM suites ${builds})
set_tests_properties(${suites} PROPERTIES DEPENDS "${builds}")
