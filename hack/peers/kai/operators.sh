# shellcheck shell=bash
# Operators of others, whose pods KAI's integration suites look at. They are built from their own modules at the versions that
# KAI's module names, and run beside the cluster. Sourced by run, after lib.sh.

# operator_of SUITE: the operator that a suite needs, or none.
operator_of() {
    case $1 in
    mpi-operator) echo mpi-operator ;;
    */kubeflow.org/*) echo training-operator ;;
    */ray.io) echo kuberay ;;
    */leader_worker_set) echo lws ;;
    */knative) echo knative ;;
    *) echo none ;;
    esac
}

# What is built is named after its source, so that it is built again when that changes.
operators_program() { printf '%s/bin/operators-%s' "$(dirname "$SOURCE")" "$(cat "$here"/operators/*.go | sha256sum | cut -c1-12)"; }
mpi_folder() { printf '%s/mpi-operator-%s' "$CACHE" "$(cat "$here"/mpi-operator/* | sha256sum | cut -c1-12)"; }

# build_operator NAME
build_operator() {
    local out
    if [[ $1 == mpi-operator ]]; then
        out=$(mpi_folder)/mpi-operator
        [[ ! -x $out ]] || return 0
        say "building $1"
        mkdir -p "$(mpi_folder)"
        cp "$here"/mpi-operator/* "$(mpi_folder)"
        (cd "$(mpi_folder)" && go mod tidy && go build -o "$out.new" .) >&2
    else
        out=$(operators_program)
        [[ ! -x $out ]] || return 0
        say "building operators of others"
        rm -rf "$SOURCE/operators-of-others"
        cp -r "$here/operators" "$SOURCE/operators-of-others"
        # A go.mod of its own, so that the suites are not built anew for what it adds.
        cp "$SOURCE/go.mod" "$SOURCE/../operators.mod"
        cp "$SOURCE/go.sum" "$SOURCE/../operators.sum"
        mkdir -p "$(dirname "$out")"
        (cd "$SOURCE" && go build -mod=mod -modfile=../operators.mod -o "$out.new" ./operators-of-others) >&2
    fi
    mv "$out.new" "$out"
}

# module_folder MODULE: where Go has put a module that an operator is built of.
module_folder() {
    if [[ $1 == */mpi-operator ]]; then
        (cd "$(mpi_folder)" && go list -m -f '{{.Dir}}' "$1")
    else
        (cd "$SOURCE" && go list -mod=mod -modfile=../operators.mod -m -f '{{.Dir}}' "$1")
    fi
}

# operator_manifests NAME: adds to flags, which is the caller's, what makes muster-world apply the operator's definitions.
operator_manifests() {
    local file from files=()
    case $1 in
    training-operator)
        from=$(module_folder github.com/kubeflow/training-operator)
        files=("$from"/manifests/base/crds/kubeflow.org_*.yaml)
        ;;
    mpi-operator)
        from=$(module_folder github.com/kubeflow/mpi-operator)
        files=("$from/manifests/base/kubeflow.org_mpijobs.yaml")
        ;;
    kuberay)
        from=$(module_folder github.com/ray-project/kuberay/ray-operator)
        files=("$from"/config/crd/bases/ray.io_*.yaml "$here/manifests/operators/kuberay.yaml")
        ;;
    lws)
        from=$(module_folder sigs.k8s.io/lws)
        files=("$from/config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml")
        ;;
    knative)
        from=$(module_folder knative.dev/serving)
        files=("$from"/config/core/300-resources/*.yaml "$(module_folder knative.dev/caching)/config/image.yaml")
        from=$(module_folder knative.dev/networking)/config
        files+=("$from"/{certificate,ingress,serverlessservice}.yaml "$here/manifests/operators/knative.yaml" "$from/config-network.yaml")
        from=$(module_folder knative.dev/serving)/config/core/configmaps
        files+=("$from"/{autoscaler,defaults,domain,gc,leader-election,logging,observability,tracing}.yaml)
        ;;
    esac
    for file in "${files[@]}"; do flags+=(--apply-first "$file"); done
}

# start_operator NAME DIR: beside the world of that directory; returns when its webhooks are asked.
start_operator() {
    local manifest deadline=$((SECONDS + PATIENCE))
    case $1 in
    mpi-operator)
        start "$2/$1.log" env KUBECONFIG="$2/kubeconfig" "$(mpi_folder)/mpi-operator"
        return
        ;;
    training-operator) manifest=$(module_folder github.com/kubeflow/training-operator)/manifests/base/webhook/manifests.yaml ;;
    lws) manifest=$(module_folder sigs.k8s.io/lws)/config/webhook/manifests.yaml ;;
    knative) start "$2/gang.log" gang_operator "$2" ;;
    esac
    start "$2/$1.log" env KUBECONFIG="$2/kubeconfig" SYSTEM_NAMESPACE=knative-serving TMPDIR="$2" \
        "$(operators_program)" --webhooks "${manifest:-}" "$1"
    [[ -n ${manifest:-} ]] || return 0
    until kubectl_in "$2" get validatingwebhookconfiguration "$1" >/dev/null 2>&1; do
        kill -0 "$LAST" 2>/dev/null || { cat "$2/$1.log" >&2 && fail "$1 ended"; }
        ((SECONDS < deadline)) || { tail -n 50 "$2/$1.log" >&2 && fail "the webhooks of $1 are not there after $PATIENCE s"; }
        sleep 0.5
    done
}
