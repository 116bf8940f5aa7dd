#!/usr/bin/env bash
#
# Clean systems of Debian and Ubuntu, in which packages are installed as a user would. To be sourced from the project's directory by
# scripts that run as root. Needs the archive of the distribution, on the first use of a system.
#
# build/chroot/SUITE.tar keeps the clean system; a copy is used once.

chroots=$PWD/build/chroot

# options_for SUITE: mmdebstrap's. Debian has no keys of Ubuntu's archive, so that its signatures are not checked: these systems
# run tests only.
options_for() {
    case $1 in
    bookworm | trixie) echo --components=main ;;
    # Only testing's lists expire. Those of a mirror that has stopped are good enough.
    testing) printf '%s\n' --components=main --aptopt='Acquire::Check-Valid-Until "false"' ;;
    jammy | noble)
        printf '%s\n' --components=main,universe --aptopt='Acquire::AllowInsecureRepositories "true"' \
            --aptopt='APT::Get::AllowUnauthenticated "true"'
        ;;
    *) echo "no such suite: $1 (bookworm, trixie, testing, jammy or noble)" >&2 && return 2 ;;
    esac
}

# make_chroot SUITE DIRECTORY: a new clean system in DIRECTORY, which must not exist.
make_chroot() {
    local suite=$1 directory=$2 known options
    known=$(options_for "$suite") || return
    mapfile -t options <<<"$known"
    if [ ! -s "$chroots/$suite.tar" ]; then
        mkdir -p "$chroots"
        rm -f "$chroots/$suite.new.tar"
        mmdebstrap --variant=apt --quiet "${options[@]}" "$suite" "$chroots/$suite.new.tar" &&
            mv "$chroots/$suite.new.tar" "$chroots/$suite.tar" || return
    fi
    mkdir -p "$directory"
    tar -xf "$chroots/$suite.tar" -C "$directory" --exclude='./dev/*' || return
    cp /etc/resolv.conf "$directory/etc/resolv.conf"
    # A process of a package that is installed must not start a service.
    printf '#!/bin/sh\nexit 101\n' >"$directory/usr/sbin/policy-rc.d"
    chmod 755 "$directory/usr/sbin/policy-rc.d"
    # What is lost if the machine crashes is made again.
    echo force-unsafe-io >"$directory/etc/dpkg/dpkg.cfg.d/unsafe-io"
    in_chroot "$directory" apt-get -qq update
}

# in_chroot DIRECTORY COMMAND…: with /proc and /dev in a mount namespace of their own, so that nothing stays mounted. The root is
# mounted, too: a process of the system can then make such a namespace itself.
in_chroot() {
    local directory=$1
    shift
    # shellcheck disable=SC2016 # for the other shell
    unshare --mount --pid --fork --kill-child -- sh -c '
        directory=$1 && shift && mount --bind "$directory" "$directory" &&
            mount -t proc proc "$directory/proc" && mount --rbind /dev "$directory/dev" &&
            exec chroot "$directory" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' sh "$directory" "$@" </dev/null
}

# luajit_of DIRECTORY: the package of LuaJIT. Some distributions know the name luajit2, and have no such package.
luajit_of() {
    if in_chroot "$1" apt-cache policy luajit2 | grep -q 'Candidate: [0-9]'; then echo luajit2; else echo luajit; fi
}
