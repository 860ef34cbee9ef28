#!/bin/sh
# Builds the targets and runs one, without cargo-fuzz: ./run.sh TARGET [libFuzzer's options]
# No sanitizer: there is no unsafe code of ours. Overflow is checked.
set -eu
cd "$(dirname "$0")"
target=$1
shift
host=$(rustc +nightly --print host-tuple)
cover="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
cover="$cover -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
cover="$cover -Cllvm-args=-sanitizer-coverage-trace-compares"
cover="$cover -Cllvm-args=-simplifycfg-branch-fold-threshold=0"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}"
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
# With --target, programs that only build are not instrumented.
RUSTFLAGS="--cfg fuzzing $cover" cargo +nightly build --release --target "$host" --bin "$target"
mkdir -p "corpus/$target" "artifacts/$target"
exec "$CARGO_TARGET_DIR/$host/release/$target" -artifact_prefix="artifacts/$target/" "$@" "corpus/$target"
