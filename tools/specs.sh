#!/usr/bin/env bash
#
# Runs specs in one of their worlds, under one Lua, with the build for it.
#
#   virtual         simulated servers, network, clock and threads (spec/virtual): takes moments, and gives the same result each time
#   testing         the clients and servers of zklock.testing, without C and without what spec/virtual/not_in_testing.lua lists
#   virtual-asan    as virtual, under AddressSanitizer and UndefinedBehaviorSanitizer, Lua 5.4
#   real            real servers
#   real-asan       real servers, the module under those sanitizers, Lua 5.4
#   nginx-asan      real servers, nginx's workers under those sanitizers, LuaJIT
#   valgrind        real servers, Lua 5.4 under valgrind
#   virtual-arm64, real-arm64   the first two with the module and the interpreter for arm64, on another machine
#
# Without a file or directory: spec/behaviour in virtual time and with zklock.testing, all of spec/ otherwise.
#
# Usage: tools/specs.sh WORLD [--lua LUA] [BUSTED ARGUMENTS…]      LUA: lua5.1 … lua5.5 or luajit; lua5.4 is the default
#
# An option's value follows it after "=": what does not begin with "-" is a file or directory with specs.

set -eu
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || { sed -n '3,/^$/s/^# \{0,1\}//p' "$0" && exit 2; }
world=$1 lua=lua5.4
shift
if [ "${1:-}" = --lua ]; then
    lua=$2
    shift 2
fi

# The interpreters are not instrumented, so the sanitizer's library must be loaded before them. All programs that specs start
# inherit it, so that those in Lua can load the module. Options for an interpreter that do not hold for bash and Java are in the
# file that is named after the interpreter. Leaks of the interpreter's own libraries are ignored.
sanitizer=$(gcc -print-file-name=libasan.so)
ubsan_options=print_stacktrace=1:halt_on_error=1
interpreter_options=(
    "LD_PRELOAD=$sanitizer" "UBSAN_OPTIONS=$ubsan_options"
    "LSAN_OPTIONS=suppressions=$PWD/tools/lsan.supp:print_suppressions=0"
)

modules=build/${lua#lua}
[ "$lua" != luajit ] || modules=build/luajit
runner=(env)
arguments=(--output=plainTerminal)
directory=spec
case $world in
virtual)
    modules=build/c/virtual/$lua
    ;;
virtual-asan)
    modules=build/c-asan/virtual/$lua
    # Fibers change their stacks, which one check of ASan does not support.
    runner+=("${interpreter_options[@]}" "ASAN_OPTIONS=detect_leaks=0:handle_segv=0:detect_stack_use_after_return=0")
    ;;
testing)
    modules=
    ;;
virtual-arm64)
    modules=build/c-arm64/virtual/$lua
    runner=(tools/arm64.sh)
    ;;
real) ;;
real-arm64)
    modules=$modules-arm64
    runner=(tools/arm64.sh)
    ;;
real-asan)
    modules=build/5.4-asan
    runner+=(
        "${interpreter_options[@]}"
        "ASAN_OPTIONS=detect_leaks=0:handle_segv=0:include_if_exists=$PWD/tools/asan-%b.options"
    )
    ;;
nginx-asan)
    # Only the workers run under sanitizers; spec/support/nginx.lua reads their reports. The specs themselves do not.
    lua=luajit modules=build/luajit
    runner+=(
        ZKLOCK_NGINX_VARIANT=luajit-asan "ZKLOCK_NGINX_SANITIZER=$sanitizer"
        ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:exitcode=86:detect_stack_use_after_return=1
        "UBSAN_OPTIONS=$ubsan_options"
    )
    ;;
valgrind)
    runner+=(
        valgrind --quiet --error-exitcode=86 --leak-check=full --show-leak-kinds=definite
        --errors-for-leak-kinds=definite
    )
    ;;
*)
    echo "tools/specs.sh: no such world: $world" >&2
    exit 2
    ;;
esac
case $world in
virtual*) arguments+=(--helper=spec/virtual/helper.lua --exclude-tags=real) directory=spec/behaviour ;;
testing) arguments+=(--helper=spec/virtual/testing.lua --exclude-tags=real) directory=spec/behaviour ;;
esac

export LUA_PATH="lua/?.lua;lua/?/init.lua;./?.lua;;" LUA_CPATH="$modules/?.so;;" ZKLOCK_LUA="$lua"
command=("${runner[@]}" "$lua" "$(command -v busted)" "${arguments[@]}")

options=() files=()
for argument; do
    case $argument in
    -*) options+=("$argument") ;;
    *)
        [ -e "$argument" ] || { echo "tools/specs.sh: no such file or directory: $argument" >&2 && exit 2; }
        files+=("$argument")
        ;;
    esac
done
command+=(${options[@]+"${options[@]}"})
[ ${#files[@]} -gt 0 ] || files=("$directory")

# In virtual time garbage is collected after each file, and busted keeps what the files have made: one process for all of them
# spends more than half of its time on that.
case $world in virtual* | testing)
    specs=$(for file in "${files[@]}"; do
        if [ -d "$file" ]; then find "$file" -name '*_spec.lua' | LC_ALL=C sort; else echo "$file"; fi
    done)
    [ -n "$specs" ] || { echo "tools/specs.sh: no spec in ${files[*]}" >&2 && exit 2; }
    xargs -d '\n' -n 8 "${command[@]}" <<<"$specs"
    exit
    ;;
esac
exec "${command[@]}" "${files[@]}"
