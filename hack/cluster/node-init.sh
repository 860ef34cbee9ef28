# shellcheck shell=bash
# The first process of a node, in new namespaces: arranges its mounts and its network, and waits for the end.
# Nothing of it is seen outside: the kernel takes mounts and links away with the last process.
set -euo pipefail
run=$1 pause=$2 address=$3

mount --make-rshared / # among the processes of the node; the machine is not a peer
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/lib
mkdir -p /var/lib/kubelet
mount --bind "$run/sysroot/var/lib/kubelet" /var/lib/kubelet
mount --bind "$run/node/log" /var/log

# The kubelet sets these, and they are of the whole machine: here it finds files instead.
for sysctl in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    if [[ -e /proc/sys/$sysctl ]]; then
        cat "/proc/sys/$sysctl" >"$run/node/sysctl/${sysctl//\//.}"
        mount --bind "$run/node/sysctl/${sysctl//\//.}" "/proc/sys/$sysctl"
    fi
done

# A bridge carries the node's address: the kubelet refuses one of loopback, and not every kernel has dummy links.
ip link set lo up
ip link add node0 type bridge
ip address add "$address/24" dev node0
ip link set node0 up
ip route add default via "${address%.*}.254" dev node0

# Pods of one bridge reach each other through Services as well: what they answer has to pass the proxy's rules.
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables

touch "$run/node/ready"
exec "$pause"
