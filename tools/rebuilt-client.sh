#!/usr/bin/env bash
#
# Builds the ZooKeeper C client from Debian's source under a sanitizer, and runs the C unit tests with it. `make test` does not
# check what happens inside Debian's library. Needs Debian's archive, and a minute.
#
# Usage: tools/rebuilt-client.sh [thread|address]      (thread)

set -eu
cd "$(dirname "$0")/.."

sanitizer=${1:-thread}
case $sanitizer in
thread) instrument=-fsanitize=thread ;;
address) instrument='-fsanitize=address,undefined -fno-sanitize-recover=undefined' ;;
*) sed -n '3,/^$/s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
work=$PWD/build/rebuilt-client
client=$work/client-$sanitizer
mkdir -p "$work/lists/partial" "$work/parts" "$client"

# Uses the machine's package sources as sources of source packages. The machine's own lists stay unchanged.
fetch_source() {
    local file
    command -v dpkg-source >/dev/null || { echo "dpkg-source is missing: apt-get install dpkg-dev" >&2 && exit 1; }
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ ! -f "$file" ] || sed 's/^deb /deb-src /; s/^Types: deb$/Types: deb-src/' "$file" >"$work/parts/$(basename "$file")"
    done
    local apt=(apt-get -qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/parts"
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work")
    "${apt[@]}" update
    (cd "$work" && "${apt[@]}" source zookeeper)
}

# The protocol's C code is generated, by a class in Debian's jar.
generate() {
    local source=$1
    mkdir -p "$source/zookeeper-client/zookeeper-client-c/generated"
    (cd "$source/zookeeper-client/zookeeper-client-c/generated" &&
        java -cp /usr/share/java/zookeeper-jute.jar org.apache.jute.compiler.generated.Rcc -l c \
            "$source/zookeeper-jute/src/main/resources/zookeeper.jute" >/dev/null)
}

source=$(find "$work" -maxdepth 1 -type d -name 'zookeeper-3*')
if [ -z "$source" ]; then
    fetch_source
    source=$(find "$work" -maxdepth 1 -type d -name 'zookeeper-3*')
    generate "$source"
fi
{
    cmake -S "$source/zookeeper-client/zookeeper-client-c" -B "$client" -DWANT_SYNCAPI=OFF -DWANT_CPPUNIT=OFF \
        -DWITH_OPENSSL=OFF -DWITH_CYRUS_SASL=OFF -DCMAKE_C_FLAGS="$instrument -g -O1 -fPIC -w"
    cmake --build "$client" -j "$(nproc)" --target zookeeper
    cmake -S . -B "$work/tests-$sanitizer" -DZKLOCK_LUA=none -DZKLOCK_TESTS=ON -DZKLOCK_SANITIZE="$sanitizer" \
        -DZOOKEEPER_LIBRARY:STRING="$client/libzookeeper.a;$client/libhashtable.a;m"
    cmake --build "$work/tests-$sanitizer" -j "$(nproc)"
} >"$work/build-$sanitizer.log" 2>&1 || {
    tail -n 40 "$work/build-$sanitizer.log" >&2
    exit 1
}

export TSAN_OPTIONS=halt_on_error=1:exitcode=86:second_deadlock_stack=1:suppressions=$PWD/tools/tsan.supp
export ASAN_OPTIONS=detect_leaks=0:exitcode=86 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
failed=0
for program in "$work/tests-$sanitizer"/unit/test_*; do
    # It checks the memory that we free. Here the C client is linked in, and its own copies of credentials would be found too.
    [ "$(basename "$program")" != test_secrets ] || continue
    echo "-- $(basename "$program")"
    "$program" || failed=1
done
exit $failed
