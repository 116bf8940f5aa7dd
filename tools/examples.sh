#!/usr/bin/env bash
#
# Runs the programs of examples/, one after the other, on one ZooKeeper, and says how many have shown what they claim to show.
# Called by `make examples`, which has installed and built the requirements.
#
# Usage: tools/examples.sh [NAME…]     LUA=luajit tools/examples.sh herd

set -u
cd "$(dirname "$0")/.." || exit 1

# Called below by the script itself, with a running ZooKeeper.
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
# redis-lua is plain Lua that runs on 5.4, but Debian installs it only for 5.1 to 5.3.
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;;/usr/share/lua/5.3/?.lua"
export LUA_CPATH="${ZKLOCK_CPATH:-$PWD/build/${LUA#lua}/?.so};$PWD/build/$LUA/?.so;;"

if [ $# = 0 ]; then
    for program in examples/*.lua; do
        name=$(basename "$program" .lua)
        [ "$name" = common ] || set -- "$@" "$name"
    done
fi
exec tools/zookeeper run -- "$PWD/tools/examples.sh" --here "$@"
