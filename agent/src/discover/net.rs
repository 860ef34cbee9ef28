//! Addresses of the host, and which of them names it in rank tables.
//!
//! On the machine itself the system is asked. Of any other tree the network files of process 1 are read: an agent in
//! a container with the host's `/proc` below its root sees the host's addresses, not its own.

use std::net::IpAddr;

use muster_proto::device::HostAddress;

use crate::host::Host;
use crate::problem::Finding;

pub mod parse;
mod server_id;
#[cfg(test)]
mod tests;

pub use server_id::{NoServerId, ServerIdSource, server_id};

/// How much of a routing table is read: nodes of large clusters have thousands of routes.
const TABLE: usize = 8 * 1024 * 1024;

/// How many addresses are kept.
const MOST: usize = 1024;

/// Interfaces whose addresses are not the node's own: those of Services and of pods. They come and go with what
/// others do, and each change would be news of the node's hardware. A `*` at the end stands for anything. Who names
/// a node by an address of such an interface gives `--server-id` the address itself.
pub const NOT_OWN: [&str; 12] = [
    // Every ClusterIP, of kube-proxy with IPVS.
    "kube-ipvs0",
    // The cluster's name server.
    "nodelocaldns",
    "dummy*",
    // Bridges of containers and virtual machines.
    "docker0",
    "cni0",
    "virbr*",
    // One end of each pod's cable, and tunnels between nodes.
    "veth*",
    "cali*",
    "lxc*",
    "cilium_*",
    "flannel.*",
    "flannel-*",
];

/// The addresses of the host, without loopback and link-local ones, by interface.
pub fn addresses(host: &Host) -> (Vec<HostAddress>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut found = match host.is_machine() {
        true => asked(&mut findings),
        false => read(host, &mut findings),
    };
    found.retain(|address| outward(address.ip) && own(&address.interface));
    found.sort();
    found.dedup();
    if found.len() > MOST {
        let message = format!("of {} addresses only {MOST} are kept", found.len());
        findings.push(Finding::new("too-many", "addresses", message));
        found.truncate(MOST);
    }
    (found, findings)
}

/// Whether addresses of this interface are the node's.
fn own(interface: &str) -> bool {
    !NOT_OWN.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => interface.starts_with(start),
        None => interface == *pattern,
    })
}

/// Whether others can reach it.
fn outward(ip: IpAddr) -> bool {
    let local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

fn asked(findings: &mut Vec<Finding>) -> Vec<HostAddress> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        let message = format!("the system does not tell its addresses: {error}");
        findings.push(Finding::new("io", "addresses", message));
        Vec::new()
    });
    let address = |one: if_addrs::Interface| HostAddress { ip: one.ip(), interface: one.name };
    interfaces.into_iter().map(address).collect()
}

fn read(host: &Host, findings: &mut Vec<Finding>) -> Vec<HostAddress> {
    let mut file = |name: &str| {
        let path = format!("/proc/1/net/{name}");
        host.read_at_most(&path, TABLE).unwrap_or_else(|error| {
            // Without IPv6 there is no if_inet6, and a simulated node has no network at all.
            if !error.is_absent() {
                findings.push(Finding::new(error.reason(), path, &error));
            }
            String::new()
        })
    };
    let routes = parse::routes(&file("route"));
    let services = parse::services(&file("ip_vs"));
    let v4 = parse::local(&file("fib_trie")).into_iter().filter_map(|ip| {
        let interface = parse::interface(&routes, ip).to_owned();
        // These files do not name the interface of an address without a network: it is kube-ipvs0 if a Service
        // has the address. Services on ports of the node have addresses of its networks.
        let service = interface.is_empty() && services.contains(&ip);
        (!service).then_some(HostAddress { interface, ip: ip.into() })
    });
    v4.chain(parse::inet6(&file("if_inet6"))).collect()
}
