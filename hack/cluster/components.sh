# shellcheck shell=bash
# How each program of the cluster is started, and how one sees that it is ready. Sourced by up; the
# caller has process.sh and sets RUN, BIN and node (yes or no). Everything listens on loopback only; where there is a node, the
# API server also on the node's addresses, all of it in the node's network namespace.

PKI=$RUN/pki

# free_ports COUNT: in the network that the programs run in.
free_ports() { "${ENTER[@]}" "$BIN/prepare" ports "$1"; }

admin() { "${ENTER[@]}" "$BIN/kubectl" --kubeconfig "$PKI/admin.kubeconfig" --cache-dir "$RUN/discovery" --request-timeout 10s "$@"; }

# start_component NAME SECONDS: runs launch_NAME and waits for ready_NAME. Ports are found free, but may
# be taken before the program has them: then it starts once more with others.
start_component() {
    local name=$1 seconds=$2 attempt began=$SECONDS
    for attempt in 1 2 3 4 5; do
        "launch_${name//-/_}"
        if wait_until "$name" "$seconds" "ready_${name//-/_}"; then
            say "$name is ready after $((SECONDS - began)) s"
            return 0
        fi
        if runs "$name" || ! grep -q 'address already in use' "$RUN/log/$name.log"; then break; fi
        say "$name: somebody took the port (attempt $attempt)"
    done
    show_log "$name"
    if runs "$name"; then fail "$name is not ready after $seconds s"; else fail "$name ended"; fi
}

# --- etcd

launch_etcd() {
    local peer
    read -r ETCD_PORT peer <<<"$(free_ports 2)"
    start_process etcd "$BIN/kplane" etcd --name=default --data-dir="$RUN/etcd" --unsafe-no-fsync \
        --listen-client-urls="https://127.0.0.1:$ETCD_PORT" --advertise-client-urls="https://127.0.0.1:$ETCD_PORT" \
        --listen-peer-urls="https://127.0.0.1:$peer" --initial-advertise-peer-urls="https://127.0.0.1:$peer" \
        --initial-cluster="default=https://127.0.0.1:$peer" \
        --client-cert-auth --trusted-ca-file="$PKI/ca.crt" --cert-file="$PKI/etcd.crt" --key-file="$PKI/etcd.key" \
        --peer-client-cert-auth --peer-trusted-ca-file="$PKI/ca.crt" \
        --peer-cert-file="$PKI/etcd.crt" --peer-key-file="$PKI/etcd.key" \
        --quota-backend-bytes=8589934592
}

ready_etcd() { grep -q 'ready to serve client requests' "$RUN/log/etcd.log"; }

# --- kube-apiserver

# Without a node the endpoint reconciler is off because it refuses a loopback address; so the Service "kubernetes" has
# no endpoints.
launch_kube_apiserver() {
    local port bind=127.0.0.1 advertise=(--advertise-address=127.0.0.1 --endpoint-reconciler-type=none)
    if [[ ${node:-no} == yes ]]; then
        bind=0.0.0.0 port=443 URL=https://$NODE_ADDRESS:443 advertise=("--advertise-address=$NODE_ADDRESS")
    else
        port=$(free_ports 1)
        URL=https://127.0.0.1:$port
    fi
    "$BIN/prepare" kubeconfigs "$PKI" "$URL"
    start_process kube-apiserver "$BIN/kplane" kube-apiserver \
        --bind-address="$bind" --secure-port="$port" "${advertise[@]}" \
        --etcd-servers="https://127.0.0.1:$ETCD_PORT" --etcd-cafile="$PKI/ca.crt" \
        --etcd-certfile="$PKI/etcd-client.crt" --etcd-keyfile="$PKI/etcd-client.key" \
        --tls-cert-file="$PKI/kube-apiserver.crt" --tls-private-key-file="$PKI/kube-apiserver.key" \
        --client-ca-file="$PKI/ca.crt" --anonymous-auth=false \
        --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file="$PKI/service-account.pub" \
        --service-account-signing-key-file="$PKI/service-account.key" \
        --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true --profiling=false \
        --kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP \
        --kubelet-client-certificate="$PKI/kubelet-client.crt" --kubelet-client-key="$PKI/kubelet-client.key"
}

ready_kube_apiserver() { [[ $(admin get --raw /readyz) == ok ]]; }

# --- kube-controller-manager

# Nodes of a test cluster may have no kubelet, so nobody is missed when a node is silent for a day.
# What it is known to make anew goes away first, so that readiness means the same after a restart.
launch_kube_controller_manager() {
    admin delete configmap kube-root-ca.crt --namespace default --ignore-not-found >/dev/null
    start_process kube-controller-manager "$BIN/kplane" kube-controller-manager \
        --kubeconfig="$PKI/kube-controller-manager.kubeconfig" --secure-port=0 --leader-elect=false \
        --use-service-account-credentials=true --service-account-private-key-file="$PKI/service-account.key" \
        --root-ca-file="$PKI/ca.crt" --allocate-node-cidrs=false --profiling=false \
        --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key" \
        --kube-api-qps=500 --kube-api-burst=1000 --concurrent-namespace-syncs=50 \
        --node-startup-grace-period=24h --node-monitor-grace-period=24h
}

ready_kube_controller_manager() { admin get --namespace default serviceaccount/default configmap/kube-root-ca.crt; }

# --- kube-scheduler

# It holds its lease, so that others see that there is a scheduler.
launch_kube_scheduler() {
    SCHEDULER_PORT=$(free_ports 1)
    start_process kube-scheduler "$BIN/kplane" kube-scheduler \
        --kubeconfig="$PKI/kube-scheduler.kubeconfig" --leader-elect=true \
        --bind-address=127.0.0.1 --secure-port="$SCHEDULER_PORT" \
        --tls-cert-file="$PKI/kube-scheduler.crt" --tls-private-key-file="$PKI/kube-scheduler.key" \
        --profiling=false --kube-api-qps=500 --kube-api-burst=1000
}

ready_kube_scheduler() { [[ $(admin --server "https://127.0.0.1:$SCHEDULER_PORT" get --raw /readyz) == ok ]]; }

# --- JobSet

launch_jobset_controller() {
    local port log=$RUN/log/jobset-manifests.log
    port=$(free_ports 1)
    "$BIN/prepare" jobset "$BIN/jobset" "$RUN" "$port"
    {
        admin apply --server-side --force-conflicts --filename "$BIN/jobset/crd.yaml" &&
            admin apply --server-side --force-conflicts --filename "$RUN/jobset/cluster.yaml" &&
            admin apply --server-side --force-conflicts --filename "$RUN/jobset/webhooks.yaml" &&
            wait_until kube-apiserver 60 is_served jobset.x-k8s.io/v1alpha2 jobsets
    } >"$log" 2>&1 || { show_log jobset-manifests && fail "JobSet could not be installed"; }
    start_process jobset-controller "$BIN/jobset-controller" --zap-log-level=info \
        --kubeconfig="$PKI/jobset-controller.kubeconfig" --config="$RUN/jobset/config.yaml"
}

# is_served GROUP/VERSION PLURAL: the controller would wait 10 s if it started before discovery has it.
is_served() { admin get --raw "/apis/$1" | grep -q "\"name\":\"$2\""; }

# A JobSet that is only tried out: its webhooks must let it pass and fill in the success policy.
ready_jobset_controller() {
    [[ $(
        admin create --dry-run=server --output 'jsonpath={.spec.successPolicy.operator}' --filename - <<'JOBSET'
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: are-the-webhooks-there, namespace: default}
spec:
  replicatedJobs:
  - name: main
    template:
      spec:
        template:
          spec:
            containers: [{name: main, image: none}]
JOBSET
    ) == All ]]
}
