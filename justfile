# Shortcuts. Everything here is a command that you can type yourself.

# list the shortcuts
default:
    @just --list

# start a small cluster and show it; stays up until Ctrl-C
demo *args:
    cargo demo -- {{args}}

# all tests that need only Rust
test *args:
    cargo test --workspace {{args}}

# formatting, lints, documentation
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# what CI runs, with times
ci:
    .ci/run

# start a real control plane (needs Go)
cluster-up *args:
    hack/cluster/up {{args}}

# stop it
cluster-down *args:
    hack/cluster/down {{args}}

# all suites on a fresh real control plane and on the sandbox
cluster-test:
    hack/cluster/test

# the Kubeflow SDK, the Python client of Kubernetes, kubectl and DI-engine's client (needs Python and a package index)
clients:
    MUSTER_PYPI=1 cargo test --package muster-tests --test suite -- suite::clients suite::dijob::ding --nocapture

# the documentation as a site in target/book, with a check of its links (builds mdBook once)
book *args:
    hack/book {{args}}

# write docs/reference anew
reference:
    MUSTER_WRITE=1 cargo test -p muster-tests --test suite suite::docs::reference

# lint, render and install the chart (needs Go)
chart-test *args:
    hack/chart/test {{args}}

# the originals' own suites against Muster (needs Go, Python and a Go module proxy)
peers *args:
    hack/peers/run {{args}}

# images as OCI archives, without a container engine
images *args:
    hack/images/build --out target/images {{args}}

# our programs on a real node (needs root and the packages of hack/cluster/packages)
node-test *args:
    hack/cluster/node-test {{args}}

# how fast the sandbox is
bench *args:
    cargo bench --package muster-sandbox {{args}}

# the originals' own suites against Muster (needs Go); --quick for those that CI runs
peers *args:
    hack/peers/run {{args}}

# fuzz targets: --list, CRATE TARGET, or --all SECONDS (needs a nightly toolchain)
fuzz *args:
    hack/fuzz {{args}}

# what a release must pass and CI has no time for; writes and commits a report in docs/reports
release *args:
    hack/release/run {{args}}

# known vulnerabilities, licences, duplicates (needs cargo-deny, fetches the advisory database)
deny:
    cargo deny check

# files that grew too long, names that say nothing, words that the glossary replaced
house:
    hack/house
