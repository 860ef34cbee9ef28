# shellcheck shell=bash
# The cluster's programs, built from the Go module in this directory and kept in a cache directory that
# is named after everything they are made of. Sourced; the caller has process.sh.

BUILD_PID= # of the go build under way: stop it when leaving early
MODULE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# binaries_dir: where the programs of this module and this Go are, or will be.
binaries_dir() {
    local cache hash
    command -v go >/dev/null || fail "Go is not installed: the cluster is built from source (go.mod names the version)"
    cache=${MUSTER_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/cluster}
    hash=$(
        cd "$MODULE" || exit
        { go env GOVERSION GOOS GOARCH && find go.mod go.sum build.sh cmd -type f -print0 | sort -z | xargs -0 sha256sum; } |
            sha256sum | cut -c1-16
    )
    mkdir -p "$cache/$hash"
    (cd "$cache/$hash" && pwd)
}

# build_binaries: fill the cache directory, if it is not there, and set BIN to it.
build_binaries() {
    BIN=$(binaries_dir)
    [[ ! -e $BIN/complete ]] || return 0
    exec 8>"$BIN/lock"
    flock -n 8 || { say "another build fills $BIN: waiting for it" && flock -w 3600 8; } || fail "it took over an hour"
    if [[ ! -e $BIN/complete ]]; then
        say "building into $BIN (12 CPU minutes from nothing, seconds if Go has its build cache)"
        local version jobset package flags="-s -w"
        version=$(go -C "$MODULE" list -mod=readonly -m -f '{{.Version}}' k8s.io/kubernetes)
        for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
            flags+=" -X $package.gitVersion=$version -X $package.gitTreeState=clean"
            flags+=" -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$version")"
        done
        flags+=" -X sigs.k8s.io/jobset/pkg/version.GitVersion=$(go -C "$MODULE" list -mod=readonly -m -f '{{.Version}}' sigs.k8s.io/jobset)"
        build_one prepare ./cmd/prepare "$flags"
        build_one pause ./cmd/pause "$flags"
        build_one devices ./cmd/devices "$flags"
        build_one dns ./cmd/dns "$flags"
        build_one jobset-controller sigs.k8s.io/jobset "$flags"
        build_one kplane ./cmd/kplane "$flags"
        ln -sfn kplane "$BIN/kubectl"
        jobset=$(go -C "$MODULE" list -mod=readonly -m -f '{{.Dir}}' sigs.k8s.io/jobset)
        mkdir -p "$BIN/jobset"
        install -m 644 "$jobset/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml" "$BIN/jobset/crd.yaml"
        install -m 644 "$jobset/config/components/rbac/role.yaml" "$BIN/jobset/role.yaml"
        install -m 644 "$jobset/config/components/webhook/manifests.yaml" "$BIN/jobset/webhooks.yaml"
        touch "$BIN/complete"
    fi
    exec 8>&-
}

# build_one NAME PACKAGE LINKER_FLAGS: shows every 15 s how far it is. BUILD_PID is set while it runs.
build_one() {
    local name=$1 package=$2 flags=$3 log=$BIN/$1.log began=$SECONDS cpu_before total ticks=0
    total=$(go -C "$MODULE" list -mod=readonly -deps "$package" | wc -l)
    count_cpu
    cpu_before=$CPU
    CGO_ENABLED=0 nice go -C "$MODULE" build -v -mod=readonly -buildvcs=false -trimpath \
        -ldflags "$flags" -o "$BIN/$name" "$package" >"$log" 2>&1 8>&- 9>&- &
    BUILD_PID=$!
    while kill -0 "$BUILD_PID" 2>/dev/null; do
        sleep 1
        ((++ticks % 15)) || say "$name: $(grep -cv ' ' "$log" || true) packages compiled of at most $total"
    done
    if ! wait "$BUILD_PID"; then
        BUILD_PID=
        tail -n 20 "$log" >&2
        fail "go build of $package failed"
    fi
    BUILD_PID=
    count_cpu
    say "$name: built in $((SECONDS - began)) s, $((CPU - cpu_before)) s of CPU time"
}

# count_cpu: set CPU to the seconds that this script's children have used. (Not a command substitution:
# that is a shell of its own, without children.)
count_cpu() {
    local LC_ALL=C
    times >"$BIN/times"
    CPU=$(awk -F'[ms ]+' 'NR == 2 { printf "%.0f", 60 * $1 + $2 + 60 * $3 + $4 }' "$BIN/times")
}
