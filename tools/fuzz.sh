#!/usr/bin/env bash
#
# Runs every fuzzer for so many seconds. What they have learnt stays in build/corpus/ and is where the next run begins; an
# input that broke something is left in build/crashes/ and named in the output.
#
# Usage: tools/fuzz.sh [SECONDS]

set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
tools/build.sh fuzz
mkdir -p build/crashes
for fuzzer in build/fuzz/fuzz/fuzz_*; do
    name=$(basename "$fuzzer")
    mkdir -p "build/corpus/$name"
    echo "== $name, $seconds s"
    "$fuzzer" -max_total_time="$seconds" -timeout=10 -max_len=4096 -artifact_prefix=build/crashes/ \
        -verbosity=0 -print_final_stats=1 "build/corpus/$name" 2>&1
done
