# shellcheck shell=bash
# Install, upgrade, roll back, uninstall: on an API server that nobody else uses. Sourced by test.

# k ARGUMENTS: kubectl on the server of $place, without anything of the user's own.
k() { HOME=$work KUBECONFIG=$kubeconfig timeout 60 "$KUBECTL" --cache-dir "$work/cache-$place" "$@"; }

# h COMMAND ARGUMENTS: helm there.
h() { helm --kubeconfig "$kubeconfig" --namespace muster-system "$@"; }

# is WANTED KUBECTL-ARGUMENTS: what kubectl prints.
is() {
    local wanted=$1 found
    shift
    found=$(k "$@")
    [[ $found == "$wanted" ]] || { echo "it is '$found', not '$wanted'" && return 1; }
}

# eventually CHECK...: within half a minute.
eventually() {
    local deadline=$((SECONDS + 30))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || { "$@"; return; }
        sleep 0.2
    done
}

fails() { ! "$@"; }

everything_is_there() { h get manifest muster | k get -f - --no-headers --output name; }

# bundles_filled: every webhook of every configuration has its caBundle.
bundles_filled() {
    local kind empty
    for kind in mutatingwebhookconfigurations validatingwebhookconfigurations; do
        empty=$(k get "$kind" --selector app.kubernetes.io/part-of=muster --output \
            'go-template={{range .items}}{{$of := .metadata.name}}{{range .webhooks}}{{if not .clientConfig.caBundle}}{{$of}}: {{.name}}{{"\n"}}{{end}}{{end}}{{end}}')
        [[ -z $empty ]] || { echo "without caBundle: $empty" && return 1; }
    done
}

# gone: nothing of the release is left but what is to be kept.
gone() {
    local kind left=''
    for kind in deployments,daemonsets,services,serviceaccounts,poddisruptionbudgets,networkpolicies,roles,rolebindings; do
        left+=$(k get "$kind" --namespace muster-system --selector app.kubernetes.io/part-of=muster --output name)
    done
    for kind in clusterroles clusterrolebindings priorityclasses mutatingwebhookconfigurations validatingwebhookconfigurations \
        validatingadmissionpolicies validatingadmissionpolicybindings; do
        left+=$(k get "$kind" --selector app.kubernetes.io/part-of=muster --output name)
    done
    [[ -z $left ]] || { echo "left: $left" && return 1; }
}

# may ACCOUNT yes|no VERB RESOURCE...: asked of the authorizer.
may() {
    local account=system:serviceaccount:muster-system:$1 wanted=$2 found
    shift 2
    found=$(k auth can-i --as "$account" "$@" 2>/dev/null) || true
    [[ $found == "$wanted" ]] || { echo "$found" && return 1; }
}

# run_coordinator: the program of this tree, as the service account of the chart, with nothing but the chart's permissions.
run_coordinator() {
    local server=$work/coordinator-$place.kubeconfig token
    token=$(k create token muster-coordinator --namespace muster-system --duration 1h)
    cp "$kubeconfig" "$server"
    HOME=$work KUBECONFIG=$server "$KUBECTL" config set-credentials coordinator --token "$token" >/dev/null
    HOME=$work KUBECONFIG=$server "$KUBECTL" config set-context --current --user coordinator >/dev/null
    start_process muster-coordinator env KUBECONFIG="$server" "$programs/muster-coordinator" --namespace muster-system \
        --hub 127.0.0.1:0 --webhooks 127.0.0.1:0 --listen 127.0.0.1:0 --di-server 127.0.0.1:0 --log-format text
}

# A ModelServing that nothing is wrong with.
SERVING='{"apiVersion":"workload.kthena.io/v1alpha1","kind":"ModelServing","metadata":{"name":"chart-test","namespace":"default"},
"spec":{"roles":[{"name":"w","replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}]}}'

serving() { k create --filename - <<<"$SERVING"; }

# The API server asks the webhook, which nobody answers here: that is the configuration at work.
serving_is_refused() {
    local said
    said=$(serving 2>&1) && { echo "it was created" && return 1; }
    grep -q 'failed calling webhook.*modelservings.muster.dev' <<<"$said" || { echo "$said" && return 1; }
}

# lifecycle PLACE KUBECONFIG
lifecycle() {
    place=$1 kubeconfig=$2
    local monitors=yes
    check "$place: install" h install muster "$chart" --create-namespace --timeout 2m
    check "$place: every object of the release is there" everything_is_there
    check "$place: 2 replicas" is 2 get deployment muster-coordinator -n muster-system -o 'jsonpath={.spec.replicas}'
    check "$place: a second Muster is refused" fails h install second "$chart"
    check "$place: the coordinator may make pods" may muster-coordinator yes create pods --all-namespaces
    check "$place: the coordinator may not change nodes" may muster-coordinator no patch nodes
    check "$place: the coordinator may not give itself permissions" may muster-coordinator no create clusterrolebindings
    check "$place: an agent may patch pods" may muster-agent yes patch pods --all-namespaces
    check "$place: an agent may not read Secrets" may muster-agent no get secrets --all-namespaces
    check "$place: an agent may not make pods" may muster-agent no create pods --all-namespaces

    run_coordinator
    check "$place: the coordinator fills in the webhooks' authority" eventually bundles_filled
    check "$place: the coordinator leaves its authority for the agents" \
        eventually k get configmap muster-coordinator-ca --namespace muster-system
    stop_process muster-coordinator
    check "$place: what nobody looks at is refused" serving_is_refused

    check "$place: upgrade" h upgrade muster "$chart" --set coordinator.replicas=3,webhooks.failurePolicy=Ignore --timeout 2m
    check "$place: 3 replicas" is 3 get deployment muster-coordinator -n muster-system -o 'jsonpath={.spec.replicas}'
    check "$place: failurePolicy is Ignore" is Ignore get mutatingwebhookconfiguration muster-coordinator \
        -o 'jsonpath={.webhooks[0].failurePolicy}'
    check "$place: the authority is still in the webhooks after an upgrade" bundles_filled
    check "$place: roll back" h rollback muster 1 --timeout 2m
    check "$place: 2 replicas again" is 2 get deployment muster-coordinator -n muster-system -o 'jsonpath={.spec.replicas}'
    check "$place: the authority is still in the webhooks after a rollback" bundles_filled
    check "$place: upgrade without TrainJobs" h upgrade muster "$chart" --set trainjob.enabled=false --timeout 2m
    check "$place: their webhooks are gone" is pods.muster.dev get mutatingwebhookconfiguration muster-coordinator \
        -o 'jsonpath={.webhooks[*].name}'
    check "$place: their definitions stay" k get crd trainjobs.trainer.kubeflow.org

    install_monitors || monitors=no
    if [[ $monitors == yes ]]; then
        check "$place: upgrade with everything" h upgrade muster "$chart" --values "$here/values/everything.yaml" --timeout 2m
        check "$place: every object of that is there" everything_is_there
    else
        left_out+=("$place: ServiceMonitor, PodMonitor and PrometheusRule: the operator's Go module cannot be had")
    fi

    check "$place: uninstall" h uninstall muster --timeout 2m
    check "$place: nothing is left but definitions" gone
    check "$place: definitions stay" k get crd modelservings.workload.kthena.io
    check "$place: nothing is refused any more" serving
    check "$place: install again" h install muster "$chart" --timeout 2m
    check "$place: objects of users are still there" k get modelserving.workload.kthena.io chart-test --namespace default
    check "$place: uninstall again" h uninstall muster --timeout 2m
    k delete modelserving.workload.kthena.io chart-test --namespace default --wait=false >/dev/null 2>&1 || true
}

# install_monitors: the definitions of the Prometheus operator, from its Go module.
install_monitors() {
    local folder kind
    (cd "$here/monitors" && go mod download github.com/prometheus-operator/prometheus-operator) >"$work/said" 2>&1 || return 1
    folder=$(cd "$here/monitors" && go list -mod=readonly -m -f '{{.Dir}}' github.com/prometheus-operator/prometheus-operator)
    for kind in servicemonitors podmonitors prometheusrules; do
        k apply --server-side --filename "$folder/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" >/dev/null
        k wait --for=condition=Established --timeout 30s "crd/$kind.monitoring.coreos.com" >/dev/null
    done
}
