# shellcheck shell=bash
# Helm, built from its Go module and kept in a cache directory that is named after what it is made of. Sourced; the caller
# has hack/cluster/process.sh.

HELM_MODULE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/helm

# build_helm: sets HELM to the program, and builds it if it is not there.
build_helm() {
    local cache hash folder
    command -v go >/dev/null || fail "Go is not installed: Helm is built from source (hack/chart/helm/go.mod names the version)"
    cache=${MUSTER_HELM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/helm}
    hash=$({ go env GOVERSION GOOS GOARCH && cat "$HELM_MODULE/go.mod" "$HELM_MODULE/go.sum"; } | sha256sum | cut -c1-16)
    folder=$cache/$hash HELM=$cache/$hash/helm
    [[ ! -x $HELM ]] || return 0
    mkdir -p "$folder"
    exec 7>"$folder/lock"
    flock -w 3600 7 || fail "another build of Helm took over an hour"
    if [[ ! -x $HELM ]]; then
        say "building Helm into $folder (5 CPU minutes from nothing)"
        CGO_ENABLED=0 nice go -C "$HELM_MODULE" build -mod=readonly -buildvcs=false -trimpath -ldflags '-s -w' \
            -o "$folder/helm.new" helm.sh/helm/v4/cmd/helm 7>&- || fail "go build of Helm failed"
        mv "$folder/helm.new" "$HELM"
        say "Helm is built"
    fi
    exec 7>&-
}

# helm ARGUMENTS: without anything of the user's own; where there is a node, in its network.
helm() {
    HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm HELM_NO_PLUGINS=1 \
        timeout 300 "${ENTER[@]}" "$HELM" "$@"
}
