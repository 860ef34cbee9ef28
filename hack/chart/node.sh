# shellcheck shell=bash
# The chart on a real node: its images run by containerd, reached through Services, with nothing but the chart's permissions.
# Sourced by test, which has check, eventually, left_out and hack/cluster's process.sh, build.sh and node.sh.

# on_node: installs, runs one job of each kind, takes programs away, uninstalls.
on_node() {
    local reason pid inside run=$RUN/node
    reason=$(why_no_node)
    [[ -n $reason ]] || ((${#images[@]})) || reason=$("$root/hack/images/build" --why-not)
    if [[ -n $reason ]]; then
        left_out+=("the chart on a real node: $reason")
        return
    fi
    say "--- on a real node"
    nodes=yes
    "$root/hack/cluster/up" --run "$run" --node
    place=node kubeconfig=$run/admin.kubeconfig KUBECTL=$run/kubectl
    check "node: images and chart are installed, and all pods come up" "$root/hack/cluster/install" --run "$run" "${images[@]}"
    check "node: both coordinators and the agent run in containers" all_ready 3
    check "node: the agent's devices are known" eventually devices_known
    check "node: the webhook refuses through the Service" refused_by_webhook
    check "node: a TrainJob runs, and its containers read their rank table" trains first
    check "node: a ModelServing runs, and its containers read the same rank table" serves
    check "node: a gang is placed by muster-scheduler" gang_runs
    check "node: what is larger than the node is told so" eventually explains "$run"
    check "node: the leader is killed, and another one takes over" fails_over
    check "node: the agent is killed, and comes back" agent_comes_back
    check "node: a TrainJob runs after that" trains second
    pid=$(RUN=$run process_pid node)
    ENTER=(nsenter --target "$pid" --net --)
    check "node: uninstall" h uninstall muster --timeout 2m
    check "node: no pod of it is left" eventually is "" get pods --namespace muster-system --output name
    ENTER=()
    inside=$(readlink "/proc/$pid/ns/net" "/proc/$pid/ns/pid" "/proc/$pid/ns/mnt")
    check "node: stop" "$root/hack/cluster/down" --run "$run" --purge
    nodes=no
    check "node: no mount, process or control group of it is left" nothing_left "$run" "$inside"
}

# all_ready COUNT: so many pods of the release, each ready.
all_ready() {
    local ready
    ready=$(k get pods --namespace muster-system --output 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}')
    [[ $(grep -ow True <<<"$ready" | wc -l) == "$1" && $(wc -w <<<"$ready") == "$1" ]] || { echo "ready: $ready" && return 1; }
}

# devices_known: what the leader has heard of the agent, from its status page.
devices_known() {
    local holder said
    holder=$(leader)
    said=$(k get --raw "/api/v1/namespaces/muster-system/pods/${holder%%_*}:9640/proxy/v1/nodes")
    [[ $said == *muster-node* && $said == *'"devices":16'* ]] || { echo "$said" && return 1; }
}

refused_by_webhook() {
    local said
    said=$(k create --filename - 2>&1 <<'YAML'
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: refused}
spec: {runtimeRef: {name: no-such-runtime}}
YAML
    ) && { echo "it was taken: $said" && return 1; }
    grep -q 'admission webhook.*no-such-runtime' <<<"$said" || { echo "$said" && return 1; }
}

# trains NAME: the documented example, to its end. Each of its pods says its place, and has a table of all eight devices, in which
# its own have the ranks of its place.
trains() {
    local pod said npu rank seat npus seats=''
    sed "s/name: first/name: $1/" "$root/docs/examples/trainjob-node.yaml" | k apply --filename -
    k wait --for=condition=Complete --timeout 50s "trainjob/$1" ||
        { k get pods --output wide && k describe trainjob "$1" && return 1; }
    for pod in $(k get pods --selector "jobset.sigs.k8s.io/jobset-name=$1" --output name); do
        said=$(k logs "$pod" --container node)
        echo "$said"
        [[ $(grep -c '"device_ip"' <<<"$said") == 8 ]]
        seat=$(sed -n 's/^node \([01]\) of 2,.*/\1/p' <<<"$said")
        npus=$(sed -n 's/^node .* NPUs //p' <<<"$said" | tr , ' ')
        [[ $(wc -w <<<"$npus") == 4 ]]
        for npu in $npus; do
            rank=$(sed -n "s/.*\"device_id\": \"$npu\",.*\"rank_id\": \"\([0-9]*\)\".*/\1/p" <<<"$said")
            [[ -n $rank ]] && ((rank / 4 == seat)) || { echo "NPU $npu of node $seat has rank '$rank'" && return 1; }
        done
        seats+=$seat
    done
    [[ $seats == 01 || $seats == 10 ]]
    k delete trainjob "$1" --timeout 50s
    eventually is "" get pods --selector "jobset.sigs.k8s.io/jobset-name=$1" --output name
}

# serves: two pods of one role with three NPUs each.
serves() {
    local table='' pod read
    k apply --filename - <<'YAML'
apiVersion: workload.kthena.io/v1alpha1
kind: ModelServing
metadata:
  name: served
  annotations: {kthena.io/ranktable-template: ascend-ranktable-template-mindie-role}
spec:
  roles:
  - name: worker
    replicas: 2
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - name: main
          image: muster.local/busybox:1
          command: [sh, -c, "trap exit TERM; while :; do sleep 3600 & wait; done"]
          resources: {limits: {huawei.com/Ascend910: 3}}
YAML
    eventually is "True True" get pods served-worker-0 served-worker-1 --output \
        'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}' || { k describe pods && return 1; }
    for pod in served-worker-0 served-worker-1; do
        read=$(k exec "$pod" --container main -- cat /etc/ascend/ranktable/ranktable.json)
        [[ $(grep -c '"device_ip"' <<<"$read") == 6 ]] || { echo "$pod reads: $read" && return 1; }
        [[ -z $table || $read == "$table" ]] || { echo "$pod reads another table" && return 1; }
        table=$read
    done
    k delete modelserving.workload.kthena.io served --timeout 50s
    eventually fails k get pod served-worker-0
}

gang_runs() {
    k apply --filename - <<'YAML'
apiVersion: batch/v1
kind: Job
metadata:
  name: gang
  labels: {kai.scheduler/queue: default-queue}
  annotations: {kai.scheduler/batch-min-member: "2"}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: muster-scheduler
      restartPolicy: Never
      containers:
      - name: main
        image: muster.local/busybox:1
        command: [sh, -c, "echo $ASCEND_VISIBLE_DEVICES"]
        resources: {limits: {huawei.com/Ascend910: 4}}
YAML
    k wait --for=condition=Complete --timeout 50s job/gang || { k describe pods && return 1; }
    [[ $(k get podgroups.scheduling.run.ai --output 'jsonpath={.items[?(@.spec.minMember==2)].metadata.name}') == pg-gang-* ]] ||
        { k get podgroups.scheduling.run.ai --output yaml && return 1; }
    k delete job gang
}

# explains RUN: the pod asks for more than there is, and one constraint is named.
explains() {
    local said
    k get pod too-large >/dev/null 2>&1 || k apply --filename - <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: too-large, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: muster-scheduler
  containers:
  - {name: main, image: "muster.local/busybox:1", resources: {limits: {huawei.com/Ascend910: 16}}}
YAML
    said=$("$1/musterctl" explain pod/too-large) && { echo "it is said to run: $said" && return 1; }
    grep 'it asks for 16 of huawei.com/Ascend910, and no node has more than 8' <<<"$said" || { echo "$said" && return 1; }
}

leader() { k get lease muster-coordinator --namespace muster-system --output 'jsonpath={.spec.holderIdentity}'; }

fails_over() {
    local before said
    before=$(leader)
    k delete pod "${before%%_*}" --namespace muster-system --grace-period=0 --force
    eventually another_leads "$before"
    eventually devices_known
    eventually all_ready 3
    # It went to the leader's own address, not to the Service until that chose the leader.
    said=$(k logs daemonset/muster-agent --namespace muster-system)
    [[ $said != *'a certificate that cannot be trusted'* ]] || { echo "$said" && return 1; }
}
another_leads() { local now && now=$(leader) && [[ -n $now && $now != "$1" ]]; }

agent_comes_back() {
    local before
    before=$(k get pods --namespace muster-system --selector app.kubernetes.io/name=muster-agent --output name)
    k delete --namespace muster-system "$before" --grace-period=0 --force
    eventually all_ready 3
}

# nothing_left RUN NAMESPACES: its directory is gone, and so is what was in it; nobody is in its namespaces any more, which end with
# their mounts and links.
nothing_left() {
    local found
    found=$(
        grep -F "$1" /proc/self/mountinfo
        find /proc/[0-9]*/ns -name 'net' -o -name 'pid' -o -name 'mnt' 2>/dev/null | xargs readlink 2>/dev/null | grep -F "$2" | sort -u
        grep -lF "$1" /proc/[0-9]*/cmdline 2>/dev/null
        compgen -G "/sys/fs/cgroup/*/$(RUN=$1 cgroup_name)"
        compgen -G "/sys/fs/cgroup/$(RUN=$1 cgroup_name)"
        compgen -G "$1"
        true
    )
    [[ -z $found ]] || { echo "left: $found" && return 1; }
}
