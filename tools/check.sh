#!/usr/bin/env bash
#
# Tests what a change affects, in seconds: for the loop of editing and trying. Without a file: the files that differ from the last
# commit, or, if none does, the files that this commit has changed. The last line is `N passed, N failed`.
#
# To most files belong the specs that name them, or load them as modules. To csrc/ and spec/simulation/ belong the C unit tests but
# test_system, some schedules, some Lua programs, and the specs of behaviour in virtual time, as to lua/. Of a spec of behaviour, parts
# marked #real run on real servers. Layout, luacheck and shellcheck check each changed file.
# LUA=luajit (or another Lua) runs the specs under that Lua instead of 5.4, and only that Lua is built. `make test` runs the rest.
#
# Usage: tools/check.sh [--list] [FILE…]       --list: says what would be run, a line each, and runs nothing

set -u
cd "$(dirname "$0")/.." || exit 1

# `make test` may run at the same time, so this is another directory.
plan=build/check/CTestTestfile.cmake
mkdir -p build/check
: >"$plan"

# suite NAME COUNTER COMMAND: see tools/suite. The suite "build" is before all others.
suite() {
    local fixture=FIXTURES_REQUIRED
    [ "$1" != build ] || fixture=FIXTURES_SETUP
    printf 'add_test([==[%s]==] "%s/tools/suite" [==[%s]==] %s [==[%s]==])\n' "$1" "$PWD" "$1" "$2" "$3"
    printf 'set_tests_properties([==[%s]==] PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 %s build)\n' "$1" "$fixture"
} >>"$plan"

list=
if [ "${1:-}" = --list ]; then
    list=yes
    shift
    suite() { printf '%s: %s\n' "$1" "$3"; }
fi

lua=${LUA:-lua5.4}
case $lua in
luajit) variant=luajit ;;
lua5.[1-5]) variant=${lua#lua} ;;
*) echo "no such Lua: $lua (lua5.1 to lua5.5, or luajit)" >&2 && exit 2 ;;
esac

changed() {
    local files
    files=$(git diff --name-only HEAD && git ls-files --others --exclude-standard)
    [ -n "$files" ] || files=$(git diff --name-only HEAD~1 HEAD)
    printf '%s\n' "$files"
}

if [ $# -eq 0 ]; then
    mapfile -t files < <(changed)
else
    files=("$@")
    for file; do
        [ -f "$file" ] || { echo "tools/check.sh: there is no file $file" >&2 && exit 2; }
    done
fi

# ---- What belongs to each file -----------------------------------------------------------------------------------------

engine='' simulator='' behaviour='' programs='' documents='' conformance='' campaign='' demo='' rock=''
behaviours=() contracts=() units=() fuzzers=() examples=() c_files=() lua_files=() scripts=()

is_script() {
    head -c 64 "$1" | head -n 1 | grep -qaE '^#!.*\b(ba)?sh\b'
}

# users_of REGEX: finds the specs that have it in their text, after a quote or a blank; of helpers and examples, also by way of helpers.
users_of() {
    local user
    while read -r user; do
        [ -z "${found[$user]:-}" ] || continue
        case $user in
        spec/contract/check_spec.lua) ;; # it names many
        *_spec.lua) found[$user]=yes ;;
        *) [[ $1 != *spec.support.* && $1 != examples/* ]] || { found[$user]=yes && users_of "$(module_of "$user")"; } ;;
        esac
    done < <(grep -rlE "[\"' ]/?($1)([^a-zA-Z0-9_-]|$)" spec/behaviour spec/contract spec/campaign spec/support --include='*.lua')
}

# A helper as `require` names it, or a program by its path.
module_of() {
    case $1 in *.lua) tr / . <<<"${1%.lua}|$1" ;; *) echo "$1" ;; esac
}

# add_users FILE [REGEX]: the specs that name it. Of a helper of most specs, some.
add_users() {
    local -A found=()
    local spec
    users_of "${2:-$(module_of "$1")}"
    if [ ${#found[@]} -gt 40 ]; then
        behaviour=yes
        contracts+=(spec/contract/tools_*_spec.lua)
        return
    fi
    for spec in "${!found[@]}"; do
        case $spec in
        spec/behaviour/*) behaviours+=("$spec") ;;
        *_spec.lua) contracts+=("$spec") ;;
        esac
    done
}

# C tests that include a header.
units_with() {
    mapfile -t -O "${#units[@]}" units < <(grep -lF "#include \"$1\"" spec/unit/test_*.c | xargs -r basename -s .c)
}

# The specs of documentation without docs_fencing_spec.lua, which starts databases, and belongs to one page.
documentation=(spec/contract/docs_[!f]*_spec.lua)

sort_out() {
    local file=$1 name
    name=$(basename "$file")
    name=${name%.*}
    case $file in
    spec/behaviour/*_spec.lua) behaviours+=("$file") ;;
    spec/contract/*_spec.lua | spec/campaign/*_spec.lua) contracts+=("$file") ;;
    spec/unit/test_*.c) units+=("$name") ;;
    spec/unit/fuzz_api.lua) fuzzers+=(fuzz_api) ;;
    spec/unit/fuzz_*.c) fuzzers+=("$name") ;;
    spec/unit/tls_peer.*) fuzzers+=(fuzz_tls) units+=(test_tls_link) ;;
    spec/unit/fake_server.*) fuzzers+=(fuzz_api fuzz_server) ;;
    spec/unit/corpus/*) fuzzers+=("$(basename "$(dirname "$file")")") ;;
    spec/unit/*.h) units_with "$(basename "$file")" ;;
    spec/conformance/*) conformance=yes ;;
    # Only the size full has a Curator.
    spec/campaign/programs/curator.lua | spec/foreign/Contender.java) campaign=full ;;&
    spec/campaign/*)
        campaign=${campaign:-short}
        contracts+=(spec/campaign/checker_spec.lua)
        ;;
    tools/browser*) contracts+=(spec/contract/command_ui*_spec.lua spec/contract/browser_spec.lua) ;;
    csrc/process/* | lua/zklock/cli*) contracts+=(spec/contract/command_*_spec.lua) ;;
    csrc/*) engine=yes programs=yes behaviour=yes ;;
    spec/simulation/lua/*) programs=yes behaviour=yes ;;
    spec/simulation/*) engine=yes simulator=yes programs=yes behaviour=yes ;;
    lua/zklock/ui*)
        contracts+=(spec/contract/command_ui*_spec.lua spec/contract/openresty_ui_spec.lua spec/contract/browser_spec.lua)
        ;;&
    lua/resty/* | lua/zklock/adapters/openresty*) contracts+=(spec/contract/openresty_*_spec.lua) ;;&
    lua/zklock/adapters/* | lua/zklock/adapters.lua | lua/zklock/wait.lua) contracts+=(spec/contract/loops*_spec.lua) ;;&
    lua/*)
        programs=yes behaviour=yes
        contracts+=("${documentation[@]}")
        ;;
    spec/virtual/*) behaviour=yes ;;
    spec/support/versions.[ch]) engine=yes simulator=yes programs=yes conformance=yes behaviour=yes ;;
    tools/locale.sh)
        add_users spec/support/locale.lua
        units+=(test_token)
        ;;
    spec/support/patient/*) add_users spec/support/patience.lua ;;
    spec/support/openresty/*) contracts+=(spec/contract/openresty_*_spec.lua) ;;
    spec/support/*) add_users "$file" ;;
    spec/programs/worker.lua) contracts+=(spec/contract/process_spec.lua) ;; # most specs can start it
    spec/programs/*) add_users "$file" "$name\"|(spec/)?programs/$name" ;;
    spec/foreign/*) contracts+=(spec/contract/foreign*_spec.lua) ;;
    examples/stock/*) demo=yes ;;
    examples/recipes/*) contracts+=(spec/contract/examples_spec.lua) ;;
    examples/*/*) add_users "$file" "${file%/*}" ;;
    examples/*.lua)
        # Files without a spec are shared by the other examples.
        if grep -q "it(\"$name " spec/contract/examples_spec.lua; then
            examples+=("$name")
        else
            contracts+=(spec/contract/examples_spec.lua)
        fi
        ;;
    tools/zookeeper | tools/background | tools/faultproxy.lua) contracts+=(spec/contract/tools_*_spec.lua) ;;
    tools/check.sh | tools/suite | tools/test.sh | tools/specs.sh | tools/build.sh | spec/suites.cmake | CMakePresets.json | Makefile)
        contracts+=(spec/contract/check_spec.lua)
        ;;
    tools/demo.sh) demo=yes ;;
    tools/test-rock.sh | tools/release.sh | tools/checks.sh) rock=yes ;;
    CMakeLists.txt | rockspec/*)
        rock=yes
        contracts+=(spec/contract/packaging_spec.lua)
        ;;
    VERSION | debian/* | CHANGELOG.md) contracts+=(spec/contract/packaging_spec.lua) ;;
    tools/states.lua | tools/pictures.lua)
        documents=yes
        add_users "$file"
        ;;
    tools/docs.sh | tools/docstrings.lua | tools/files.lua | tools/reference.lua | tools/site.py | *.md | docs/*)
        documents=yes
        contracts+=("${documentation[@]}")
        add_users "$file"
        ;;
    tools/*) add_users "$file" ;;
    esac
    case $file in
    *.c | *.h) c_files+=("$file") ;;
    *.lua | *.rockspec) lua_files+=("$file") ;;
    *) ! is_script "$file" || scripts+=("$file") ;;
    esac
}

for file in "${files[@]}"; do
    [ ! -f "$file" ] || sort_out "$file"
done

# Prints each word once, however often it is named.
once() {
    [ $# -eq 0 ] || printf '%s\n' "$@" | sort -u
}
mapfile -t behaviours < <(once "${behaviours[@]}")
mapfile -t contracts < <(once "${contracts[@]}")
mapfile -t fuzzers < <(once "${fuzzers[@]}")

# A run of all of behaviour is in virtual time only. Of a single file, the parts that cannot run there run on real servers.
virtual=() both=()
for file in "${behaviours[@]}"; do
    if grep -q '#real\>' "$file"; then both+=("$file"); else virtual+=("$file"); fi
done
[ -z "$behaviour" ] || virtual=(spec/behaviour/*_spec.lua)

# nginx always has LuaJIT.
plain=() nginx=()
for file in "${contracts[@]}"; do
    case $file in spec/contract/openresty_*) nginx+=("$file") ;; *) plain+=("$file") ;; esac
done

# ---- What is built: no more than is run ---------------------------------------------------------------------------------

[ -z "$engine" ] || mapfile -t -O "${#units[@]}" units < <(basename -s .c spec/unit/test_*.c | grep -vx test_system)
mapfile -t units < <(once "${units[@]}")
targets=("${units[@]}")
[ -z "$engine" ] || targets+=(simulate scenes)
[ -z "$simulator" ] || targets+=(sim_selftest)
[ -z "$simulator$conformance" ] || targets+=(conformance_simulated)
[ -z "$conformance" ] || targets+=(conformance_real)
[ -z "$programs" ] || targets+=(simulate_lua)
[ -z "${virtual[*]}${both[*]}" ] || targets+=("virtual-$lua")
builds=()
if [ ${#targets[@]} -gt 0 ]; then
    joined=$(IFS=, && echo "${targets[*]}")
    builds+=("c:$joined")
fi
[ -z "${plain[*]}${both[*]}${examples[*]}" ] || builds+=("$variant")
[ -z "${nginx[*]}$campaign" ] || builds+=(luajit)
[ -z "$demo$campaign" ] || builds+=(5.4)
[ ${#fuzzers[@]} -eq 0 ] || builds+=(fuzz)
mapfile -t builds < <(once "${builds[@]}")

# ---- What is run; the longest first ---------------------------------------------------------------------------------------

[ ${#builds[@]} -eq 0 ] || suite "build" status "tools/build.sh ${builds[*]}"
[ -z "$campaign" ] || suite "fault campaign, $campaign" ours "spec/campaign/run --size $campaign --seconds 5"
# Two at a time: as one suite they would be longer than any other.
halves=('' '')
for i in "${!virtual[@]}"; do
    halves[i % 2]+=" ${virtual[i]}"
done
for i in 0 1; do
    [ -z "${halves[i]}" ] ||
        suite "behaviour in virtual time: $lua, $((i + 1))" busted "tools/specs.sh virtual --lua $lua${halves[i]}"
done
[ -z "$behaviour" ] || suite "behaviour with zklock.testing: $lua" busted "tools/specs.sh testing --lua $lua"
[ ${#both[@]} -eq 0 ] ||
    suite "behaviour in virtual time and on real servers: $lua" busted \
        "tools/specs.sh virtual --lua $lua ${both[*]} && tools/specs.sh real --lua $lua --tags=real ${both[*]}"
[ ${#plain[@]} -eq 0 ] || suite "contracts: $lua" busted "tools/specs.sh real --lua $lua ${plain[*]}"
[ ${#nginx[@]} -eq 0 ] || suite "contracts in nginx" busted "tools/specs.sh real --lua luajit --tags=nginx ${nginx[*]}"
if [ ${#examples[@]} -gt 0 ]; then
    filters=$(printf " --filter='the example %s '" "${examples[@]}")
    suite "examples: $lua" busted "tools/specs.sh real --lua $lua$filters spec/contract/examples_spec.lua"
fi
[ -z "$demo" ] || suite "the demo" status 'LUA=lua5.4 tools/demo.sh'
for unit in "${units[@]}"; do
    suite "$unit" cmocka "sanitized build/c/unit/$unit"
done
if [ -n "$engine" ]; then
    suite "schedules" ours 'computing build/c/simulate --seeds 1 300'
    suite "single scenes" ours 'computing build/c/scenes'
    suite "layers" ours 'tools/lint.sh layers states'
fi
[ -z "$simulator" ] || suite "the simulator itself" ours 'computing build/c/sim_selftest'
[ -z "$simulator$conformance" ] || suite "the simulation behaves as the cases say" ours 'computing build/c/conformance_simulated'
if [ -n "$conformance" ]; then
    suite "the real client and server behave as the cases say" ours 'build/c/conformance_real'
    suite "random programs are told the same by the simulation and by real servers" status 'same_programs 1 20'
fi
[ -z "$programs" ] || suite "Lua programs" ours 'computing build/c/simulate_lua --seeds 1 40'
[ ${#fuzzers[@]} -eq 0 ] || suite "fuzzers" status "tools/fuzz.sh 3 ${fuzzers[*]}"
[ -z "$rock" ] || suite "luarocks make and require" ours 'tools/test-rock.sh'
[ ${#c_files[@]} -eq 0 ] || suite "layout" status "clang-format --dry-run -Werror ${c_files[*]}"
if [ ${#lua_files[@]} -gt 0 ]; then
    suite "luacheck" status "LUA_INIT=@tools/loop_variables.lua luacheck --quiet --codes --no-color ${lua_files[*]}"
    suite "private names" status "find lua -name '*.lua' | xargs lua5.4 tools/private_names.lua"
fi
[ ${#scripts[@]} -eq 0 ] || suite "shellcheck" status "shellcheck -x ${scripts[*]}"
[ -z "$documents" ] || suite "documents" ours 'tools/lint.sh docs'

[ -z "$list" ] || exit 0
[ -s "$plan" ] || { echo "tools/check.sh: no test belongs to ${files[*]}" >&2 && exit 2; }
exec tools/test.sh --in build/check
