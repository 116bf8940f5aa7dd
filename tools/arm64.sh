#!/usr/bin/env bash
#
# Runs a command on a machine that is not arm64 so that the programs for arm64 that it starts run, too, by qemu-user. Their libraries,
# the Lua interpreters, which come first in PATH, and the modules for these are those of Debian for arm64: build/arm64/sysroot has
# them. All else is this machine's: files, shells, Java.
#
# The kernel starts such programs if qemu-user is registered with it (binfmt_misc). If it is not, it is registered in a user namespace
# of the command, so that nothing of the system is changed. Needs Linux 6.7 for that.
#
# Usage: tools/arm64.sh COMMAND…
#        tools/arm64.sh --sysroot     makes the sysroot, unless it is there; needs Debian's archive
#        tools/arm64.sh --possible    says why such programs cannot run here, and fails

set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
arm64=$here/build/arm64
format=/usr/lib/binfmt.d/qemu-aarch64.conf
packages=(
    libzookeeper-st-dev lua5.4 liblua5.4-dev luajit libluajit-5.1-dev libcmocka-dev
    lua-busted lua-posix lua-luv lua-cqueues lua-copas lua-cjson lua-socket
)

# make_sysroot SUITE
make_sysroot() {
    local list
    list=$(printf ',%s' "${packages[@]}")
    rm -rf "$arm64"
    mkdir -p "$arm64/bin" "$arm64/binfmt"
    mmdebstrap --quiet --architectures=arm64 --variant=extract --components=main --include="${list#,}" "$1" "$arm64/new"
    # In a path that the sysroot has, qemu-user looks there first.
    find "$arm64/new" -mindepth 1 -maxdepth 1 ! -name usr ! -name lib -exec rm -rf {} +
    ln -s ../sysroot/usr/bin/lua5.4 ../sysroot/usr/bin/luajit "$arm64/bin"
    mv "$arm64/new" "$arm64/sysroot"
}

can_run() {
    "$arm64/bin/lua5.4" -v >/dev/null 2>&1
}

# registered COMMAND…: in a user namespace, in which qemu-user is registered. (Other shells would drop bash's exported functions.)
registered() {
    # shellcheck disable=SC2016 # for the other shell
    unshare --user --map-root-user --mount -- bash -c '
        mount -t binfmt_misc binfmt_misc "$1" && tr -d "\n" <"$2" >"$1/register" && shift 2 && exec "$@"' \
        bash "$arm64/binfmt" "$format" "$@"
}

[ $# -gt 0 ] || { sed -n '3,/^$/s/^# \{0,1\}//p' "$0" && exit 2; }
if [ "$1" = --sysroot ]; then
    [ -d "$arm64/sysroot" ] || make_sysroot "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
    exit
fi
export QEMU_LD_PREFIX=$arm64/sysroot PATH=$arm64/bin:$PATH
if [ "$1" = --possible ]; then
    can_run || registered "$arm64/bin/lua5.4" -v >/dev/null
elif can_run; then
    exec "$@"
else
    registered "$@"
fi
