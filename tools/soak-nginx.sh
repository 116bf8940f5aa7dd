#!/usr/bin/env bash
#
# Sends lock cycles through nginx until CYCLES have been granted. Fails if the resources of its worker grow, as tools/soak-nginx.lua
# says.
#
# Usage: tools/soak-nginx.sh [CYCLES]     (100000)

set -eu
cd "$(dirname "$0")/.."

cycles=${1:-100000}
tools/build.sh luajit
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;$PWD/?.lua;;" LUA_CPATH="$PWD/build/luajit/?.so;;"
exec tools/zookeeper run -- luajit tools/soak-nginx.lua "$cycles"
