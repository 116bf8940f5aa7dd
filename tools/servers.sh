#!/usr/bin/env bash
#
# Fetches ZooKeeper servers of other Debian releases and unpacks them below build/servers, without installing anything. tools/zookeeper
# starts them by --zookeeper VERSION, with the Java that is installed.
#
#   build/servers/VERSION/server.jar   the server and all classes that it needs
#   build/servers/SUITE                a link to the version of that release
#
# apt fetches the packages, and checks them by Debian's keys (package debian-archive-keyring). It keeps its lists there, too, and nothing
# of the system is changed. A release that is there is not fetched again: remove build/servers for newer ones.
#
# Usage: tools/servers.sh [SUITE…]     SUITE: trixie testing (all). Prints "SUITE VERSION" for each. Exits with 3 if it cannot fetch them:
#                                      the last line says why.
#
# DEBIAN_MIRROR: the archive (http://deb.debian.org/debian)

set -eu
cd "$(dirname "$0")/.."

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
# Without netty's native parts, which are only faster. Some releases have netty in several packages.
packages=(
    libzookeeper-java libcommons-cli-java libcommons-io-java libdropwizard-metrics-java libjackson2-annotations-java
    libjackson2-core-java libjackson2-databind-java libnetty-java libslf4j-java libsnappy-java
)
optional=(libnetty-buffer-java libnetty-common-java)
jars=(
    zookeeper zookeeper-jute commons-cli commons-io metrics-core jackson-annotations jackson-core jackson-databind slf4j-api slf4j-simple
    snappy-java netty-buffer netty-codec netty-common netty-handler netty-resolver netty-transport netty-transport-native-epoll
    netty-transport-native-unix-common
)

fail() {
    echo "tools/servers.sh: $*" >&2
    exit 3
}

# fetch SUITE DIRECTORY: unpacks the packages.
fetch() {
    local suite=$1 directory=$2 name wanted=("${packages[@]}") apt
    mkdir -p "$directory"/{lists/partial,archives/partial,parts,debs,root} || return
    : >"$directory/status"
    echo "deb [signed-by=$keys] $mirror $suite main" >"$directory/sources.list"
    # Signatures are checked; but the lists may be old, as those of a mirror that has stopped.
    apt=(-qq -o "Dir::Etc::sourcelist=$directory/sources.list" -o "Dir::Etc::sourceparts=$directory/parts"
        -o "Dir::Etc::preferencesparts=$directory/parts" -o Dir::Etc::preferences=/dev/null -o "Dir::State=$directory"
        -o "Dir::State::status=$directory/status" -o "Dir::Cache=$directory" -o Acquire::Languages=none
        -o Acquire::Check-Valid-Until=false -o "APT::Sandbox::User=$(id -un)" -o APT::Update::Error-Mode=any)
    apt-get "${apt[@]}" update || return
    for name in "${optional[@]}"; do
        [ -z "$(apt-cache "${apt[@]}" madison "$name")" ] || wanted+=("$name")
    done
    (cd "$directory/debs" && apt-get "${apt[@]}" download "${wanted[@]}") || return
    for name in "$directory"/debs/*.deb; do
        dpkg-deb -x "$name" "$directory/root" || return
    done
}

# pack ROOT JAR: makes one jar without a manifest: a manifest of Debian names the jars of the installed system.
pack() {
    python3 - "$1/usr/share/java" "$2" "${jars[@]}" <<'PYTHON'
import os, sys, zipfile
folder, target, *names = sys.argv[1:]
with zipfile.ZipFile(target, "w") as merged:
    for jar_name in names:
        with zipfile.ZipFile(f"{folder}/{jar_name}.jar") as jar:
            for name in set(jar.namelist()) - set(merged.namelist()):
                if not name.endswith("/") and name != "META-INF/MANIFEST.MF" and not name.endswith(".SF"):
                    merged.writestr(name, jar.read(name))
PYTHON
}

command -v apt-get dpkg-deb >/dev/null || fail "needs apt and dpkg"
command -v python3 >/dev/null || fail "needs python3"
[ -r "$keys" ] || fail "no $keys (package debian-archive-keyring)"

servers=$PWD/build/servers
mkdir -p "$servers"
exec {lock}>"$servers/lock"
flock "$lock"
[ $# -gt 0 ] || set -- trixie testing
for suite; do
    if [ ! -r "$servers/$suite/server.jar" ]; then
        work=$servers/$suite.new
        rm -rf "$work" "${servers:?}/$suite"
        fetch "$suite" "$work" >&2 || fail "cannot fetch the server of $suite from $mirror"
        version=$(basename "$work"/root/usr/share/java/zookeeper-[0-9]*.jar .jar)
        version=${version#zookeeper-}
        mkdir -p "$servers/$version"
        pack "$work/root" "$servers/$version/new.jar"
        mv "$servers/$version/new.jar" "$servers/$version/server.jar"
        ln -s "$version" "$servers/$suite"
        rm -rf "$work"
    fi
    echo "$suite $(readlink "$servers/$suite")"
done
