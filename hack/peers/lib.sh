# shellcheck shell=bash
# What the scripts of all peers share: the peer's module, its test programs, and a world to run them on. Sourced; the caller
# has set -euo pipefail. Everything that is started here is ended by stop_all, by its pid.

PEERS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$PEERS/../.." && pwd)
CACHE=${MUSTER_PEERS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/peers}
STARTED=()
# How long something may take to start, in seconds: long, since the machine may be busy with something else.
PATIENCE=600

say() { printf '[%4ds] %s\n' "$SECONDS" "$*" >&2; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# programs: build Muster's programs and set PROGRAMS to where they are.
programs() {
    local target
    (cd "$ROOT" && cargo build --quiet --package muster-tests --bin muster-world --package muster-agent --bin muster-agent \
        --package muster-coordinator --bin muster-coordinator)
    target=$(cargo metadata --format-version 1 --no-deps --offline --manifest-path "$ROOT/Cargo.toml" |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    PROGRAMS=$target/debug
}

# kubernetes: build Kubernetes' own programs as hack/cluster does, and set BIN to where they are.
kubernetes() {
    local found
    # shellcheck disable=SC1091 # another part of the tree
    found=$(RUN=$(mktemp -d) && export RUN && . "$ROOT/hack/cluster/process.sh" && . "$ROOT/hack/cluster/build.sh" &&
        build_binaries >&2 && rmdir "$RUN" && printf '%s' "$BIN")
    BIN=$found
}

# module NAME@VERSION RULES: a writable copy of a Go module in the cache; sets SOURCE to it. RULES is a script that is run
# inside a fresh copy and changes what the suites connect to; the copy is named after it.
module() {
    local module=$1 rules=$2 hash from
    hash=$({ echo "$module" && cat "$rules"; } | sha256sum | cut -c1-12)
    SOURCE=$CACHE/$(basename "${module%@*}")-${module#*@}-$hash/source
    [[ ! -e $SOURCE/../complete ]] || return 0
    say "fetching $module"
    from=$(go mod download -json "$module" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
    [[ -d $from ]] || fail "the Go module proxy does not serve $module"
    rm -rf "$SOURCE"
    mkdir -p "$SOURCE"
    cp -r "$from/." "$SOURCE"
    chmod -R u+w "$SOURCE"
    (cd "$SOURCE" && bash -euo pipefail "$rules") || fail "$rules does not fit $module"
    touch "$SOURCE/../complete"
}

# suite_program PACKAGE: compile the tests of a package of the module; prints the program's path.
suite_program() {
    local out
    out=$(dirname "$SOURCE")/bin/$(tr / _ <<<"$1")
    if [[ ! -x $out ]]; then
        mkdir -p "$(dirname "$out")"
        (cd "$SOURCE" && nice go test -vet=off -c -o "$out.new" "./$1") >&2 && mv "$out.new" "$out"
    fi
    printf '%s' "$out"
}

# start LOG COMMAND...: in the background; its pid is in STARTED, and in LAST.
start() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 </dev/null &
    LAST=$!
    STARTED+=("$LAST")
}

# stop_all: end what was started, the last first, and wait for it.
stop_all() {
    local at pid
    for ((at = ${#STARTED[@]} - 1; at >= 0; at--)); do
        pid=${STARTED[at]}
        kill "$pid" 2>/dev/null || continue
        wait "$pid" 2>/dev/null || true
    done
    STARTED=()
}

# start_world DIR FLAGS...: a muster-world with these flags, and its kubeconfig in DIR/kubeconfig; returns when it is ready.
start_world() {
    local dir=$1 deadline=$((SECONDS + PATIENCE))
    shift
    mkdir -p "$dir/logs"
    start "$dir/world.log" "$PROGRAMS/muster-world" --kubeconfig "$dir/kubeconfig" --logs "$dir/logs" --ready-file "$dir/ready" "$@"
    until [[ -e $dir/ready ]]; do
        kill -0 "$LAST" 2>/dev/null || { cat "$dir/world.log" >&2 && fail "muster-world ended"; }
        ((SECONDS < deadline)) || { cat "$dir/world.log" >&2 && fail "muster-world is not ready after $PATIENCE s"; }
        sleep 0.2
    done
}

# start_controllers DIR NAMES: controllers of Kubernetes itself beside the world's own, by the names that
# kube-controller-manager gives them.
start_controllers() {
    start "$1/controllers.log" nice "$BIN/kplane" kube-controller-manager --kubeconfig "$1/kubeconfig" --controllers "$2" \
        --leader-elect=false --secure-port=0 --use-service-account-credentials=false --profiling=false \
        --kube-api-qps=200 --kube-api-burst=400 --concurrent-deployment-syncs=2
}

# rolled_out DIR NAMESPACE DEPLOYMENT...: returns when their pods run.
rolled_out() {
    local dir=$1 namespace=$2 name deadline=$((SECONDS + PATIENCE))
    shift 2
    for name in "$@"; do
        until kubectl_in "$dir" rollout status "deployment/$name" --namespace "$namespace" --timeout 50s >/dev/null 2>&1; do
            ((SECONDS < deadline)) || fail "deployment $namespace/$name has no pods that run after $PATIENCE s"
        done
    done
}

# kubectl_in DIR ARGUMENTS: kubectl on the world of that directory, without anything of the user's own.
kubectl_in() {
    local dir=$1
    shift
    HOME=$dir timeout 60 "$BIN/kubectl" --kubeconfig "$dir/kubeconfig" --cache-dir "$dir/discovery" "$@"
}
