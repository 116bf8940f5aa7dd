#!/usr/bin/env bash
#
# Sends lock cycles through nginx until so many have been granted, with timeouts, refused tries, clients that hang up, killed light
# threads and reloads among them, and watches what the worker uses. Fails if that grows. What is measured and allowed stands in
# tools/soak-nginx.lua.
#
# Usage: tools/soak-nginx.sh [CYCLES]     (100000)

set -eu
cd "$(dirname "$0")/.."

cycles=${1:-100000}
tools/build.sh luajit
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;$PWD/?.lua;;" LUA_CPATH="$PWD/build/luajit/?.so;;"
exec tools/zookeeper run -- luajit tools/soak-nginx.lua "$cycles"
