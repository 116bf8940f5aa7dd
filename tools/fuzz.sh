#!/usr/bin/env bash
#
# Runs every fuzzer, or the named ones, for SECONDS each. A fuzzer begins with the inputs in spec/unit/corpus/ and those that
# earlier runs have added to build/corpus/. An input that made it fail is left in build/crashes/ and named in the output.
#
# Usage: tools/fuzz.sh [SECONDS [FUZZER…]]

set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# -eq 0 ] || shift
tools/build.sh fuzz
mkdir -p build/crashes
[ $# -gt 0 ] || set -- build/fuzz/fuzz/fuzz_*
for fuzzer; do
    name=$(basename "$fuzzer")
    fuzzer=build/fuzz/fuzz/$name
    mkdir -p "build/corpus/$name" "spec/unit/corpus/$name"
    echo "== $name, $seconds s"
    # A server may announce a packet of 2 GB, which the C client allocates.
    "$fuzzer" -max_total_time="$seconds" -timeout=60 -max_len=2048 -rss_limit_mb=6144 -artifact_prefix=build/crashes/ \
        -verbosity=0 -print_final_stats=1 "build/corpus/$name" "spec/unit/corpus/$name" 2>&1
done
