# The directories and addresses of the cluster. The other scripts source this file.

readonly KUBERNETES=1.34.4 # the staging modules of this version are v0.34.4
readonly CONTAINERD=v2.2.9
readonly COREDNS=v1.12.4
readonly GATEWAY_API=v1.6.3
readonly ISTIO=v0.0.0-20260403063052-b9159ca3e5d5 ISTIO_API=v1.27.8 # only for the backends of the conformance suite

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${LENO_KUBE_CACHE:-$HOME/.cache/leno-kube}/$KUBERNETES # what `build` makes; `down` leaves it
RUN=${LENO_KUBE_RUN:-/tmp/leno-kube}                         # all state of a cluster; `down` removes it
BIN=$CACHE/bin IMAGES=$CACHE/images PKI=$RUN/pki LOGS=$RUN/logs
export KUBECONFIG=$RUN/admin.conf
export PATH=$BIN:$SCRIPTS/../../.tools/go/bin:$PATH

# Number of nodes of the cluster, which `up` recorded.
NODES=$(cat "$RUN/nodes" 2>/dev/null || echo 0)
ETCD_PORT=${LENO_KUBE_ETCD_PORT:-23790}
API_PORT=${LENO_KUBE_API_PORT:-6443}
BRIDGE=lkbr0 # connects the control plane, which has the bridge's own address, and the nodes
# Prints the directory RUN of the cluster that has the bridge: the cluster with nodes on this machine.
owner_of_bridge() { { ip link show $BRIDGE 2>/dev/null || true; } | sed -n 's/^ *alias //p'; }
readonly SERVICES=10.96.0.0/16 SERVICE_API=10.96.0.1 SERVICE_DNS=10.96.0.10 PODS=10.244.0.0/16
CGROUP=leno-kube # name of the cgroup in each hierarchy that contains all nodes and their Pods
# Prints the root directories of the hierarchies of cgroups version 1, or the one root directory of version 2.
cgroup_hierarchies() { if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then echo /sys/fs/cgroup/; else ls -d /sys/fs/cgroup/*/; fi; }
node_ip() { echo "10.200.0.$((10 + $1))"; }
pods_of() { echo "10.244.$1.0/24"; }
# Prints the address of the control plane. Without nodes, loopback is enough, and needs no root.
control_ip() { if [[ $NODES == 0 ]]; then echo 127.0.0.1; else echo 10.200.0.1; fi; }

# A pid file also holds the start time of the process, so that another process with a reused pid is not mistaken for
# ours.
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }
note() { echo "$2 $(started "$2")" >"$RUN/pids/$1"; } # note NAME PID
pid() {                                              # pid NAME: prints the pid, if that process still runs
    local number start
    read -r number start 2>/dev/null <"$RUN/pids/$1" || return 1
    [[ -n $start && $(started "$number") == "$start" ]] && echo "$number"
}
alive() { pid "$1" >/dev/null; }
