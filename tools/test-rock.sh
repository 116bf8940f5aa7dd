#!/usr/bin/env bash
#
# Installs the rocks as a user would, with only luarocks and a C compiler, into an empty tree: first the library, which needs no
# other rock, then the command; loads them from there, away from the sources; and removes them again. For Lua 5.4, and for 5.1,
# whose rock LuaJIT loads too.
#
# With `packed`: packs the source rocks of the release, as they are published, and installs these files, for Lua 5.1 to 5.4, 5.5
# where it is installed, and LuaJIT. The tag that the rockspecs name is one of a local repository with the files of this directory.
#
# Ends with `N passed, N failed`.
#
# Usage: tools/test-rock.sh [packed]

set -u
cd "$(dirname "$0")/.." || exit 1

# shellcheck source=tools/checks.sh
. tools/checks.sh
# shellcheck source=tools/release.sh
. tools/release.sh

version=$(cat VERSION)
# luarocks leaves its objects among the sources, so it gets a copy: the files that git has or could add, as in a clone.
work=$PWD/build/rock${1:+-$1}
rm -rf "$work"
mkdir -p "$work"
echo 'rocks_servers = {}' >"$work/zklock.lua"
# Debian's packages have the rocks that the command needs.
echo 'rocks_provided = { argparse = "0.7.1-1", dkjson = "2.6-1", luasocket = "3.1.0-1" }; rocks_servers = {}' >"$work/zklock-cli.lua"

# rocks_for LUA ROCK: its luarocks, with a separate tree, and with nothing from elsewhere but what the rock needs.
rocks_for() {
    local lua=$1 rock=$2
    shift 2
    local options=(--lua-version="${lua#lua}" --tree="$work/$lua/tree")
    [ "$lua" != luajit ] || options=(--lua-version=5.1 --tree="$work/$lua/tree")
    (cd "$work/$lua/source" && HOME=$work/$lua LUAROCKS_CONFIG=$work/$rock.lua luarocks "${options[@]}" "$@")
}

# install_for LUA ROCK make|install WHAT
install_for() {
    local lua=$1 variables=()
    # One with the flags that users have; without optimisation, the others compile in a third of the time.
    [ "$lua" = lua5.4 ] || variables=("CFLAGS=-O0 -fPIC")
    [ "$lua" != luajit ] || variables+=("LUA_INCDIR=$(pkg-config --variable=includedir luajit)")
    mkdir -p "$work/$lua/source" && rocks_for "$lua" "${@:2}" "${variables[@]}"
}

# load_with LUA TREE-OF: loads it in an empty directory, with only the tree on the path.
load_with() {
    local lua=$1 tree=$work/$2/tree abi=${2#lua}
    [ "$2" != luajit ] || abi=5.1
    mkdir -p "$work/empty" && cd "$work/empty" &&
        LUA_PATH="$tree/share/lua/$abi/?.lua;$tree/share/lua/$abi/?/init.lua" \
            LUA_CPATH="$tree/lib/lua/$abi/?.so" LUA_INIT='' RELEASE=$version \
            "$lua" -e 'local zklock = require "zklock"; assert(type(zklock.connect) == "function"); assert(zklock.VERSION == os.getenv "RELEASE")
                require "zklock.inspect"; require "zklock.metrics"'
}

# The command, as luarocks has installed it; argparse is Debian's.
run_command() {
    cd "$work/empty" && "$work/$1/tree/bin/zklock" --version | grep -xF "zklock $version"
}

remove_from() {
    local lua=$1
    rocks_for "$lua" zklock-cli remove zklock-cli && rocks_for "$lua" zklock remove zklock &&
        [ -z "$(find "$work/$lua/tree" -path '*zklock*' -type f -not -path '*/manifest*')" ]
}

luas=(lua5.4 lua5.1)
case ${1:-} in
'') ;;
packed)
    luas=(lua5.4 lua5.3 lua5.2 lua5.1 luajit)
    if pkg-config --exists lua5.5; then luas+=(lua5.5); else echo "left out: Lua 5.5, which is not installed"; fi
    check "luarocks pack" pack_rocks "$work"
    ;;
*) echo "tools/test-rock.sh: no such part: $1" >&2 && exit 2 ;;
esac

for lua in "${luas[@]}"; do
    [ "${1:-}" = packed ] || check "$lua: sources" copy_files "$work/$lua/source" csrc lua rockspec docs README.md LICENSE
    for rock in zklock zklock-cli; do
        if [ "${1:-}" = packed ]; then
            check "$lua: luarocks install of $rock" install_for "$lua" $rock install "$work/$rock-$version-1.src.rock"
        else
            check "$lua: luarocks make of $rock" install_for "$lua" $rock make "rockspec/$rock-scm-1.rockspec"
        fi
        [ $rock != zklock ] || check "$lua: require from the tree" load_with "$lua" "$lua"
    done
    check "$lua: the command" run_command "$lua"
done
check "luajit: require from Lua 5.1's tree" load_with luajit lua5.1
for lua in "${luas[@]}"; do
    check "$lua: luarocks remove" remove_from "$lua"
done

summary
