#!/usr/bin/env bash
#
# Builds variants, each in build/<variant>:
#
#   5.1 … 5.5 luajit          the Lua module, as released. All are made in build/lua, which compiles once what does not depend on Lua.
#                             That directory is for the Luas that were asked for so far.
#   <lua>-release             the same, for `make install`: a warning of the compiler is no error
#   <lua>-asan                the Lua module with address and undefined-behaviour sanitizers, by gcc: its libasan can be
#                             preloaded into an interpreter that is not instrumented
#   <lua>-coverage            the Lua module, counting lines
#   c                         C unit tests and simulator, as released
#   c-asan c-tsan c-coverage  the same, instrumented; c-tsan is without the simulator
#   clang                     everything but the fuzzers by clang; clang-tidy reads it
#   c-arm64 <lua>-arm64       for arm64, on another machine; tools/arm64.sh runs programs that load or are made of these
#   fuzz                      the fuzzers, by clang
#
# Usage: tools/build.sh VARIANT[:TARGET,…]…     with targets: only those of the variant, and their requirements
#
# Of several that run at once, each waits for the others.

set -eu
cd "$(dirname "$0")/.."

jobs=$(nproc)

# Ninja finds in a moment that nothing has to be built; a new directory is for it.
[ -n "${CMAKE_GENERATOR:-}" ] || ! command -v ninja >/dev/null || export CMAKE_GENERATOR=Ninja

configure() {
    local variant=$1
    shift
    # Configuring again costs a second, and each build detects a change of CMakeLists.txt by itself.
    [ -f "build/$variant/Makefile" ] || [ -f "build/$variant/build.ninja" ] ||
        cmake -S . -B "build/$variant" -DZKLOCK_WERROR="${WERROR:-ON}" "$@"
}

# configure_luas LUA…: for these, and those for which build/lua is already.
configure_luas() {
    local before='' lua
    # The cache alone is left by a configuration that failed.
    if [ -f build/lua/Makefile ] || [ -f build/lua/build.ninja ]; then
        before=$(sed -n 's/^ZKLOCK_LUA:[A-Z]*=//p' build/lua/CMakeCache.txt)
    fi
    local luas=$before
    for lua; do
        case ";$luas;" in *";$lua;"*) ;; *) luas=$luas${luas:+;}$lua ;; esac
    done
    [ "$luas" = "$before" ] ||
        cmake -S . -B build/lua -DZKLOCK_WERROR="${WERROR:-ON}" "-DZKLOCK_LUA=$luas" "-DZKLOCK_MODULES=$PWD/build"
}

build() {
    local variant=$1 base=${1%%-*} kind='' targets=()
    case $variant in *-*) kind=${variant#*-} ;; esac
    [ -z "$2" ] || IFS=, read -r -a targets <<<"$2"

    local options=()
    case $base in
    lua) ;;
    5.[1-5] | luajit) options+=("-DZKLOCK_LUA=$base") ;;
    c) options+=(-DZKLOCK_LUA=none -DZKLOCK_TESTS=ON) ;;
    clang) options+=(-DZKLOCK_LUA=5.4 -DZKLOCK_TESTS=ON -DCMAKE_C_COMPILER=clang) ;;
    fuzz) options+=(-DZKLOCK_LUA=none -DZKLOCK_FUZZ=ON -DZKLOCK_SANITIZE=address -DCMAKE_C_COMPILER=clang) ;;
    *) echo "tools/build.sh: no such variant: $variant" >&2 && return 2 ;;
    esac
    case $kind in
    '') ;;
    release) options+=(-DZKLOCK_WERROR=OFF) ;;
    asan) options+=(-DZKLOCK_SANITIZE=address -DCMAKE_C_COMPILER=gcc) ;;
    tsan) options+=(-DZKLOCK_SANITIZE=thread) ;;
    coverage) options+=(-DZKLOCK_COVERAGE=ON -DCMAKE_C_COMPILER=gcc) ;;
    arm64) tools/arm64.sh --sysroot && options+=("-DCMAKE_TOOLCHAIN_FILE=$PWD/tools/arm64.cmake") || return ;;
    *) echo "tools/build.sh: no such variant: $variant" >&2 && return 2 ;;
    esac

    if [ "$variant" = lua ]; then
        configure_luas "${targets[@]#module-}" || return
    else
        configure "$variant" "${options[@]}" || return
    fi
    cmake --build "build/$variant" -j "$jobs" ${targets[0]:+--target "${targets[@]}"}
}

[ $# -gt 0 ] || { sed -n '3,/^$/s/^# \{0,1\}//p' "$0" && exit 2; }
mkdir -p build
exec {lock}>build/lock
flock "$lock"
modules=
for wanted; do
    case $wanted in
    5.[1-5] | luajit) modules=${modules:-lua:}${modules:+,}module-$wanted ;;
    *) set -- "$@" "$wanted" ;;
    esac
    shift
done
for wanted in ${modules:+"$modules"} "$@"; do
    variant=${wanted%%:*} only=
    [ "$variant" = "$wanted" ] || only=${wanted#*:}
    log=build/$variant.log
    if ! build "$variant" "$only" >"$log" 2>&1; then
        cat "$log" >&2
        echo "tools/build.sh: $variant could not be built" >&2
        exit 1
    fi
done
