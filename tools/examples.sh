#!/usr/bin/env bash
#
# Runs the programs of examples/, one after the other, on a ZooKeeper of their own, and says how many have shown what they
# say that they show. Called by `make examples`, which has installed and built what they need.
#
# Usage: tools/examples.sh [NAME…]     LUA=luajit tools/examples.sh herd

set -u
cd "$(dirname "$0")/.." || exit 1

# Called by itself below, where there is a ZooKeeper.
if [ "${1:-}" = --here ]; then
    shift
    passed=0
    failed=0
    for name; do
        printf '\n== %s\n' "$name"
        if "$LUA" "examples/$name.lua" "$ZOOKEEPER"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "-- $name failed"
        fi
    done
    printf '\n%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ]
    exit
fi

export LUA=${LUA:-lua5.4}
# redis-lua is plain Lua that runs on 5.4, but Debian files it under 5.1 to 5.3 only.
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;;/usr/share/lua/5.3/?.lua"
export LUA_CPATH="${ZKLOCK_CPATH:-$PWD/build/${LUA#lua}/?.so};$PWD/build/$LUA/?.so;;"

if [ $# = 0 ]; then
    for program in examples/*.lua; do
        name=$(basename "$program" .lua)
        [ "$name" = common ] || set -- "$@" "$name"
    done
fi
exec tools/zookeeper run -- "$PWD/tools/examples.sh" --here "$@"
