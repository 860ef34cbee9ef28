# shellcheck shell=bash
# Lint, render, refuse: what needs no cluster. Sourced by test, which has check, helm, chart, work and programs.

# lint FILE...: with these values.
lint() {
    helm lint --strict --quiet --namespace muster-system "$chart" "${@/#/--values=}"
}

# render NAME NAMESPACE OPTION...: leaves the objects in $work/NAME.yaml.
render() {
    local name=$1 namespace=$2
    shift 2
    helm template muster "$chart" --namespace "$namespace" "$@" >"$work/$name.yaml"
}

# look NAME OPTION...: at what was rendered.
look() { "$programs/chart" "$@" <"$work/$1.yaml"; }

render_all() {
    local file name
    check "lint: the defaults" lint
    check "render: the defaults" render defaults muster-system
    check "look: the defaults" look defaults --defaults
    for file in "$here"/values/*.yaml; do
        name=$(basename "$file" .yaml)
        check "lint: $name" lint "$file"
        check "render: $name" render "$name" elsewhere --values "$file"
        check "look: $name" look "$name"
    done
    # What was written for muster-system is nowhere else in another namespace. The test's values may name it.
    check "another namespace is used throughout" no_muster_system "$work/everything.yaml"
    # helm upgrade --reuse-values brings the values of an older chart.
    check "values that an older chart did not have may be missing" render older muster-system --set agent.hostRoot=null
    check "an older chart's values leave the rule of runtimes as it was" renders older2 '--runtime-finalizer=referenced' --set trainjob.runtimeFinalizer=null
    check "off may be written without quotes" renders off '--runtime-finalizer=off' --set trainjob.runtimeFinalizer=false
    check "an older chart's values leave the DI server strict" renders older3 '--di-server-trust=pods-and-tokens' --set dijob.trust=null
    check "a strict DI server may be called by all pods" lacks strict 'controller-name: di-operator'
    check "one that trusts anyone may be called by pods of DIJobs" renders anyone 'controller-name: di-operator' --set dijob.trust=anyone
    check "unless somebody says who may" lacks named 'controller-name: di-operator' --set 'dijob.trust=anyone,networkPolicy.diServerFrom[0].podSelector.matchLabels.rl=yes'
    check "pods of TrainJobs are ours" renders ours '--default-scheduler=muster-scheduler'
    check "ModelServings without a scheduler are ours" renders serving 'default: muster-scheduler'
    check "with Kthena's compatibility volcano is one of our names" renders kthena '--scheduler-name=volcano' --set modelserving.kthenaCompatibility=true
    check "and stays the default of the definition" renders kthena2 'default: volcano' --set modelserving.kthenaCompatibility=true
    check "LeaderWorkerSets are left to their operator" lacks sets 'leader-worker-sets'
    check "unless somebody asks for them" renders sets2 '--leader-worker-sets=true' --set modelserving.leaderWorkerSets=true
    check "with the rights that they need" renders sets3 'leaderworkersets/status' --set modelserving.leaderWorkerSets=true
    check "without ModelServings there are none" lacks sets4 'leader-worker-sets' --set modelserving.leaderWorkerSets=true --set modelserving.enabled=false
    check "values of an older chart do not name them" lacks sets5 'leader-worker-sets' --set modelserving.leaderWorkerSets=null
    check "who keeps another scheduler gets no default" lacks keeps '--default-scheduler|default: muster' --set scheduler.default=false
    check "agents keep away from the control plane" renders away 'key: node-role.kubernetes.io/control-plane'
    check "agents run there where a value says so" lacks there 'node-role' --set agent.controlPlane=true
    check "late writes of a deposed coordinator are refused" renders late 'kind: Lease'
    check "no policies where the API server knows none" lacks policies 'ValidatingAdmissionPolicy' --set admissionPolicy.enabled=false
    check "webhooks ask for a client certificate" renders client '--webhook-client-ca=/etc/muster/webhook-client/ca.crt' --set webhooks.clientCaConfigMap=webhook-client-ca
    check "and do not by default" lacks no-client 'webhook-client'
    check "the package holds what the folder links to" packaged
}

# renders NAME WORDS OPTION...: what is rendered has these words.
renders() {
    local name=$1 words=$2
    shift 2
    render "$name" muster-system "$@" && grep -qF -- "$words" "$work/$name.yaml"
}

# lacks NAME PATTERN OPTION...: no line of what is rendered is like this.
lacks() {
    local name=$1 pattern=$2
    shift 2
    render "$name" muster-system "$@" && ! grep -E -- "$pattern" "$work/$name.yaml"
}

no_muster_system() {
    local found
    found=$(grep -n muster-system "$1") || return 0
    echo "$found"
    return 1
}

packaged() {
    helm package "$chart" --destination "$work" >/dev/null
    helm template muster "$work"/muster-*.tgz --namespace muster-system >"$work/packaged.yaml"
    diff "$work/defaults.yaml" "$work/packaged.yaml"
}

# refused WORDS OPTION...: rendering fails, and says these words.
refused() {
    local words=$1
    shift
    if helm template muster "$chart" "$@" >/dev/null 2>"$work/why"; then
        echo "it was rendered"
        return 1
    fi
    grep -qF -- "$words" "$work/why" || { cat "$work/why" && return 1; }
}

# Values that are refused before anything is sent, each with the words that name the field.
refuse_all() {
    local words option
    while IFS='|' read -r words option; do
        check "refused: $option" refused "$words" --set "$option"
    done <<'TABLE'
/coordinator/replicas|coordinator.replicas=0
/coordinator/replicas|coordinator.replicas=two
/coordinator|coordinator.replica=3
/coordinator/flags|coordinator.flags.leese=10s
/coordinator/flags|coordinator.flags.hub=1.2.3.4:8443
/coordinator/antiAffinity|coordinator.antiAffinity=yes
/address|address=localhost
/agent/flags|agent.flags.coordinator=https://other:1
/agent/coordinatorUrl|agent.coordinatorUrl=http://plain:8443
/agent/kubeletRoot|agent.kubeletRoot=var/lib/kubelet
/agent/hostRoot|agent.hostRoot=host
/agent/controlPlane|agent.controlPlane=no
/webhooks/failurePolicy|webhooks.failurePolicy=Maybe
/webhooks/timeoutSeconds|webhooks.timeoutSeconds=60
/webhooks/clientCaConfigMap|webhooks.clientCaConfigMap=Not_A_Name
/image/pullPolicy|image.pullPolicy=Sometimes
/modelserving/leaderWorkerSets|modelserving.leaderWorkerSets=sometimes
/tables/namespace|tables.namespace=Not_A_Name
/monitoring/serviceMonitor/interval|monitoring.serviceMonitor.interval=often
additional properties 'crd' not allowed|crd.keep=false
TABLE
}
