# The steps of hack/release/run, in order. Each has a line that says what it is (step_says), a function that does it (step_NAME), a
# reason why it cannot run here, if there is one (step_why_not), and a filter that picks from what it printed (step_facts).
# shellcheck shell=bash disable=SC2034
STEPS=(busy seeds flood peers fuzz bench)

step_says() {
    case $1 in
    busy) echo "cargo test --workspace, ${MUSTER_BUSY_RUNS:-10} times with all cores busy: in turn with one thread of tests, 16, and the default" ;;
    seeds) echo "Seeded runs of the scheduler against an API that fails, lags and forgets: ${MUSTER_SEEDS:-2000} seeds" ;;
    flood) echo "Every listener of a coordinator under ${MUSTER_FLOOD:-10000} connections that shout" ;;
    peers) echo "hack/peers/run: the originals' own suites, unchanged, with Muster in their place" ;;
    fuzz) echo "Every fuzz target for ${MUSTER_FUZZ_SECONDS:-60} s" ;;
    bench) echo "Benchmarks, each beside a peer or the floor in the same run" ;;
    esac
}

step_why_not() {
    case $1 in
    peers | bench) command -v go >/dev/null || echo "Go is not installed" ;;
    fuzz) cargo +nightly --version >/dev/null 2>&1 || echo "no nightly toolchain; rustup toolchain install nightly" ;;
    esac
}

step_busy() {
    local threads run status=0
    load=()
    trap 'kill "${load[@]}" 2>/dev/null' EXIT
    for ((run = 0; run < $(nproc); run++)); do
        nice -n 5 sh -c 'while :; do :; done' &
        load+=($!)
    done
    cargo test --workspace --no-run
    for ((run = 1; run <= ${MUSTER_BUSY_RUNS:-10}; run++)); do
        case $((run % 3)) in 0) threads= ;; 1) threads=1 ;; 2) threads=16 ;; esac
        echo "busy run $run, RUST_TEST_THREADS=${threads:-unset}"
        env ${threads:+"RUST_TEST_THREADS=$threads"} cargo test --workspace --no-fail-fast || status=1
    done
    return "$status"
}

step_seeds() { MUSTER_SEEDS=${MUSTER_SEEDS:-2000} cargo test --release --package muster-scheduler-state --test seeded -- --nocapture; }

step_flood() { MUSTER_FLOOD=${MUSTER_FLOOD:-10000} cargo test --release --package muster-tests --test suite suite::flood -- --nocapture --test-threads 1; }

step_peers() { hack/peers/run; }

step_fuzz() { hack/fuzz --all "${MUSTER_FUZZ_SECONDS:-60}"; }

step_bench() {
    local bench status=0
    for bench in hack/bench/*/run; do
        echo "bench $bench"
        "$bench" || { echo "bench $bench: FAILED"; status=1; }
    done
    return "$status"
}

step_facts() {
    case $1 in
    # Each binary's closing line, added up for each run.
    busy)
        awk '/^busy run/ {if (run) print run ": " passed " passed, " failed " failed"; run = $0; passed = failed = 0}
             /^test result:/ {passed += $4; failed += $6}
             /^test .* FAILED$/ {print "  " $2}
             END {if (run) print run ": " passed " passed, " failed " failed"}'
        ;;
    seeds) grep -E '^Sum |^test ' || true ;;
    fuzz) grep '^fuzz ' || true ;;
    *) grep -vE '^ *(Compiling|Downloaded|Downloading|Finished|Running|Checking|go: downloading)' | tail -n 120 ;;
    esac
}
