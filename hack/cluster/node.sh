# shellcheck shell=bash
# A real node: containerd and a kubelet in namespaces of their own, and a device plugin for devices that are
# not there. Sourced by what starts, stops or asks for one; the caller has process.sh and sets RUN, and BIN to start it.
#
# The first process of the node holds its network, its mounts and its process ids. When it ends, the kernel
# ends every process of the node, and all its mounts and links go with them. What is left are control groups
# and the files in RUN.

NODE=muster-node
NODE_ADDRESS=10.254.0.1 # cmd/prepare has it in the certificates
DNS_SERVICE_ADDRESS=10.96.0.10
POD_ADDRESSES=10.244.0.0/16
NODE_PACKAGES=(containerd runc containernetworking-plugins busybox-static iproute2 iptables util-linux)
NODE_COMPONENTS=(devices dns kube-proxy kubelet containerd) # in the order in which they end
NODE_DEVICES=(
    "huawei.com/Ascend910=$(printf 'Ascend910-%d,' 0 1 2 3 4 5 6 7)"
    "nvidia.com/gpu=$(printf 'GPU-11111111-2222-3333-4444-00000000%04x,' 0 1 2 3 4 5 6 7)"
)
NODE_DEVICES=("${NODE_DEVICES[@]%,}")

# why_no_node: prints why there can be no node on this machine, and nothing if there can.
why_no_node() {
    local program cni
    [[ $(uname -s) == Linux ]] || { echo "a node needs Linux" && return; }
    ((EUID == 0)) || { echo "a node needs root: it makes namespaces and control groups" && return; }
    for program in containerd ctr runc busybox ip iptables unshare nsenter; do
        command -v "$program" >/dev/null ||
            { echo "$program is not installed; on Debian: hack/cluster/packages (apt-get install ${NODE_PACKAGES[*]})" && return; }
    done
    ! ldd "$(command -v busybox)" >/dev/null 2>&1 || { echo "busybox is not static; on Debian: apt-get install busybox-static" && return; }
    cni=$(cni_plugins)
    [[ -n $cni ]] || { echo "no network plugins in /usr/lib/cni or /opt/cni/bin; on Debian: apt-get install containernetworking-plugins" && return; }
    # Before 5.3 the next setting was of the whole machine.
    printf '5.3\n%s\n' "$(uname -r)" | sort --version-sort --check=quiet || { echo "a node needs Linux 5.3 or newer" && return; }
    [[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ]] ||
        { echo "the kernel has no br_netfilter, which Services between pods of one node need: modprobe br_netfilter" && return; }
    unshare --net --mount --pid --fork true 2>/dev/null || { echo "this root may not make namespaces (a container without CAP_SYS_ADMIN?)" && return; }
    [[ -n $(cgroup_hierarchies) ]] || { echo "no control groups in /sys/fs/cgroup that can be written" && return; }
}

cni_plugins() {
    local directory
    for directory in /usr/lib/cni /opt/cni/bin; do
        if [[ -x $directory/bridge && -x $directory/host-local ]]; then echo "$directory" && return; fi
    done
}

# --- control groups

# cgroup_hierarchies: the directories in which a control group can be made; one with version 2.
cgroup_hierarchies() {
    local directory
    if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
        [[ ! -w /sys/fs/cgroup ]] || echo /sys/fs/cgroup
        return
    fi
    for directory in /sys/fs/cgroup/*/; do
        if [[ -e $directory/cgroup.procs && -w $directory && ! -L ${directory%/} ]]; then echo "${directory%/}"; fi
    done
}

# cgroup_name: of the node of this RUN.
cgroup_name() { printf 'muster-node-%s\n' "$(sha256sum <<<"$RUN" | cut -c1-12)"; }

make_cgroups() {
    local directory name
    name=$(cgroup_name)
    for directory in $(cgroup_hierarchies); do mkdir -p "$directory/$name"; done
}

# remove_cgroups: the node's own, with what is in them. Their processes have ended or are ending.
remove_cgroups() {
    local directory name tries
    name=$(cgroup_name)
    for ((tries = 0; tries < 100; tries++)); do
        for directory in $(cgroup_hierarchies); do
            [[ ! -d $directory/$name ]] || find "$directory/$name" -depth -type d -exec rmdir {} + 2>/dev/null || true
        done
        compgen -G "/sys/fs/cgroup/*/$name" >/dev/null || [[ -d /sys/fs/cgroup/$name ]] || return 0
        sleep 0.1
    done
    say "control groups are left: $(compgen -G "/sys/fs/cgroup/*/$name" | tr '\n' ' ')"
    return 1
}

# --- namespaces

# child_of PID: the only child of a process.
child_of() { { grep -l "^PPid:[[:space:]]$1\$" /proc/[0-9]*/status 2>/dev/null || true; } | cut -d/ -f3; }

# point_to_child NAME: between this machine and a process in other namespaces there is the program that went there
# (unshare, nsenter). The pid file gets its child, which is what is meant.
point_to_child() {
    local outer pid='' tries
    outer=$(process_pid "$1") || return 0
    for ((tries = 0; tries < 50; tries++)); do
        pid=$(child_of "$outer")
        [[ -z $pid ]] || break
        sleep 0.02
    done
    [[ -z $pid ]] || printf '%s %s\n' "$pid" "$(process_began "$pid")" >"$RUN/pid/$1"
}

# launch_node: the first process.
launch_node() {
    [[ $RUN/ != /run/* && $RUN/ != /var/* ]] || fail "$RUN cannot hold a node: inside, /run, /var/lib and /var/log are others"
    make_cgroups
    rm -rf "$RUN/node"
    mkdir -p "$RUN/node/log" "$RUN/node/sysctl" "$RUN/sysroot/var/lib/kubelet"
    start_process node unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
        bash "$MODULE/node-init.sh" "$RUN" "$BIN/pause" "$NODE_ADDRESS"
    point_to_child node
}

ready_node() { [[ -e $RUN/node/ready ]]; }

# enter_node: from here on programs start in the node's network, and ENTER_NODE goes to all its namespaces.
enter_node() {
    INIT=$(process_pid node)
    ENTER_NODE=(nsenter --target "$INIT" --net --mount --pid --)
    ENTER=(nsenter --target "$INIT" --net --)
}

# write_doors: RUN/enter runs a command inside the node, RUN/kubectl runs kubectl in its network.
write_doors() {
    # shellcheck disable=SC2016
    door enter '--mount --pid --wd="$PWD"'
    write_door kubectl "$BIN/kubectl"
}

# write_door NAME PROGRAM: RUN/NAME runs a program in the node's network, as the cluster's administrator unless --kubeconfig says otherwise.
write_door() {
    door "$1" '' "KUBECONFIG='$RUN/admin.kubeconfig'" "'$2'"
}

# door NAME NAMESPACES [VARIABLE PROGRAM]: a script that goes to the node's network and further namespaces, if the node runs.
door() {
    rm -f "$RUN/$1"
    cat >"$RUN/$1" <<SCRIPT
#!/bin/sh
read -r pid _ 2>/dev/null <'$RUN/pid/node' && [ -d "/proc/\$pid/ns" ] ||
    { echo "error: no node runs in $RUN; start it: hack/cluster/up --run $RUN --node" >&2 && exit 1; }
${3:-} exec nsenter --target "\$pid" --net $2 -- ${4:-} "\$@"
SCRIPT
    chmod 700 "$RUN/$1"
}

# start_inside NAME COMMAND...: like start_process, in all namespaces of the node. What it writes is read by other users, too.
start_inside() {
    local name=$1 mask ENTER=("${ENTER_NODE[@]}")
    mask=$(umask)
    umask 022
    start_process "$@"
    umask "$mask"
    point_to_child "$name"
}

# --- containerd

launch_containerd() {
    cat >"$RUN/node/containerd.toml" <<TOML
version = 2
root = "$RUN/node/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$RUN/node/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "muster.local/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$(cni_plugins)"
    conf_dir = "$RUN/node/cni"
TOML
    mkdir -p "$RUN/node/cni"
    cat >"$RUN/node/cni/10-pods.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$POD_ADDRESSES"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$RUN/node/addresses"}}]}
JSON
    start_inside containerd containerd --config "$RUN/node/containerd.toml"
}

ready_containerd() { "${ENTER_NODE[@]}" ctr version; }

# import_image FILE: an image as a tar file, for pods of the node.
import_image() { "${ENTER_NODE[@]}" ctr --namespace k8s.io images import "$1" >>"$RUN/log/images.log" 2>&1; }

# import_images: the sandbox image, and a busybox with the names of its programs.
import_images() {
    local program links=()
    for program in $(busybox --list | grep -vx busybox); do links+=("=busybox:/bin/$program"); done
    "$BIN/prepare" image "$RUN/node/pause.tar" muster.local/pause:1 /pause "$BIN/pause:/pause"
    "$BIN/prepare" image "$RUN/node/busybox.tar" muster.local/busybox:1 /bin/sh "$(command -v busybox):/bin/busybox" "${links[@]}"
    if ! import_image "$RUN/node/pause.tar" || ! import_image "$RUN/node/busybox.tar"; then
        show_log images
        fail "the images cannot be imported"
    fi
}

# --- kubelet

launch_kubelet() {
    mkdir -p "$RUN/node/volume-plugins"
    cat >"$RUN/node/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_ADDRESS
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/kubelet.crt
tlsPrivateKeyFile: $PKI/kubelet.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$(cgroup_name)
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
resolvConf: ""
clusterDNS: [$DNS_SERVICE_ADDRESS]
clusterDomain: cluster.local
volumePluginDir: $RUN/node/volume-plugins
nodeStatusUpdateFrequency: 2s
# Images are only here: on a full disk the kubelet must not take them away.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
YAML
    start_inside kubelet "$BIN/kplane" kubelet --config="$RUN/node/kubelet.yaml" --kubeconfig="$PKI/node.kubeconfig" \
        --hostname-override="$NODE" --node-ip="$NODE_ADDRESS"
}

# A kubelet that was restarted is ready when it has written the node's status itself, not when the last one did.
ready_kubelet() {
    [[ $("${ENTER[@]}" "$BIN/kubectl" get --raw /healthz --server http://127.0.0.1:10248) == ok ]] &&
        [[ $(admin get node "$NODE" --output 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == True ]]
}

# --- Services and their names

# Conntrack's limits are of the whole machine: they stay as they are.
launch_kube_proxy() {
    cat >"$RUN/node/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $PKI/kube-proxy.kubeconfig}
mode: iptables
clusterCIDR: $POD_ADDRESSES
hostnameOverride: $NODE
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0}
YAML
    start_inside kube-proxy "$BIN/kplane" kube-proxy --config="$RUN/node/proxy.yaml"
}

ready_kube_proxy() { "${ENTER[@]}" "$BIN/kubectl" get --raw /healthz --server http://127.0.0.1:10256; }

# CoreDNS beside the pods instead of in one: the Service has no selector, and its only endpoint is the node.
launch_dns() {
    sed "s/DNS_SERVICE_ADDRESS/$DNS_SERVICE_ADDRESS/; s/NODE_ADDRESS/$NODE_ADDRESS/" "$MODULE/dns.yaml" |
        admin apply --server-side --force-conflicts --filename - >"$RUN/log/dns-manifests.log" 2>&1 ||
        { show_log dns-manifests && fail "the Service of the name server could not be made"; }
    cat >"$RUN/node/Corefile" <<COREFILE
.:53 {
    bind $NODE_ADDRESS
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {
        kubeconfig $PKI/dns.kubeconfig
    }
}
COREFILE
    start_inside dns "$BIN/dns" -conf "$RUN/node/Corefile"
}

# The name server is ready, and reached as pods reach it.
ready_dns() {
    [[ $("${ENTER[@]}" "$BIN/kubectl" get --raw /ready --server http://127.0.0.1:8181) == OK ]] &&
        "${ENTER[@]}" busybox nslookup kubernetes.default.svc.cluster.local "$DNS_SERVICE_ADDRESS"
}

# --- device plugin

launch_devices() {
    local offers=() offer
    for offer in "${NODE_DEVICES[@]}"; do offers+=(--offer "$offer"); done
    mkdir -p "$RUN/sysroot/var/lib/kubelet/device-plugins"
    start_inside devices "$BIN/devices" "${offers[@]}"
}

ready_devices() {
    [[ $(admin get node "$NODE" --output 'jsonpath={.status.allocatable.huawei\.com/Ascend910} {.status.allocatable.nvidia\.com/gpu}') == "8 8" ]]
}

# --- the end

# remove_node: ends the node and takes away what it made, also what an up that was killed has left.
remove_node() {
    local component
    [[ -d $RUN/node || -e $RUN/pid/node ]] || return 0
    for component in "${NODE_COMPONENTS[@]}" node; do stop_process "$component"; done
    remove_cgroups || true
    rm -rf "$RUN/node" "$RUN/sysroot"
}
