#!/usr/bin/env bash
#
# Drives Debian's chromium against the live view, real servers and nginx: its tests, or its pictures for the documentation.
#
# The driver and the accessibility checks come from npm, into build/browser/, in the versions of tools/browser/package.json.
#
# Usage: tools/browser.sh test                   ends with "N passed, N failed"
#        tools/browser.sh screenshots DIRECTORY

set -eu
cd "$(dirname "$0")/.."

lua=${LUA:-lua5.4}
variant=${lua#lua}
[ "$lua" != luajit ] || variant=luajit
export ZKLOCK_LUA="$lua" ZKLOCK_CONFIG="" ZKLOCK_BUILD="$PWD/build"
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;$PWD/?.lua;;" LUA_CPATH="$PWD/build/$variant/?.so;;"

install_driver() {
    mkdir -p build/browser
    cmp -s tools/browser/package.json build/browser/package.json && [ -d build/browser/node_modules ] && return
    cp tools/browser/package.json build/browser/
    (cd build/browser && npm install --ignore-scripts --no-audit --no-fund >npm.log 2>&1) || { cat build/browser/npm.log >&2 && return 1; }
}

case ${1:-} in
test | screenshots)
    if ! command -v chromium >/dev/null; then
        echo "left out: the live view in a browser: needs chromium"
        [ "$1" = test ]
        exit
    fi
    install_driver
    exec tools/zookeeper run -- node "tools/browser/$1.mjs" "${@:2}"
    ;;
*)
    sed -n '3,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
