#!/usr/bin/env bash
# The stock demo, complete: starts a Redis and a ZooKeeper on free ports in temporary directories, runs three rounds and prints a
# table. Everything is stopped at the end, also after an error. Called by `make demo`, which has installed and built the
# requirements.
set -euo pipefail
cd "$(dirname "$0")/.."

lua=${LUA:-lua5.4}
# redis-lua is plain Lua that runs on 5.4, but Debian installs it only for 5.1 to 5.3.
export LUA_PATH="$PWD/lua/?.lua;$PWD/lua/?/init.lua;;;/usr/share/lua/5.3/?.lua"
export LUA_CPATH="${ZKLOCK_CPATH:-$PWD/build/5.4/?.so};;"

directory=$(mktemp -d)
redis=
clean_up() {
    [ -n "$redis" ] && kill "$redis" 2>/dev/null && wait "$redis" 2>/dev/null
    rm -rf "$directory"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# A free port cannot be reserved; if the port is taken, the next try takes another.
for _ in 1 2 3 4 5; do
    port=$((32000 + RANDOM % 768))
    redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --daemonize no --dir "$directory" \
        >"$directory/redis.log" 2>&1 &
    redis=$!
    until redis-cli -p "$port" ping >/dev/null 2>&1; do
        kill -0 "$redis" 2>/dev/null || break
        sleep 0.05
    done
    kill -0 "$redis" 2>/dev/null && break
done
kill -0 "$redis" 2>/dev/null || { cat "$directory/redis.log" >&2; echo "demo: Redis does not start" >&2; exit 1; }

# shellcheck disable=SC2016 # expanded by the inner shell, which knows ZOOKEEPER
tools/zookeeper run -- sh -c 'exec "$0" examples/stock/demo.lua "$0" "$1" "$ZOOKEEPER"' "$lua" "$port"
