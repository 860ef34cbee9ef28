//! The kernel's files about addresses and routes. Pure.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use muster_proto::device::HostAddress;

/// How long the name of an interface is, at most.
const NAME: usize = 15;

/// A network that an interface reaches without a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The interface through which the route leads.
    pub interface: String,
    /// An address of the network.
    pub network: u32,
    /// The bits of it that count.
    pub mask: u32,
}

/// The host's own IPv4 addresses, of `fib_trie`: leaves that are followed by `/32 host LOCAL`.
pub fn local(text: &str) -> BTreeSet<Ipv4Addr> {
    let mut found = BTreeSet::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line.starts_with("+-- ") {
            leaf = None;
        } else if line == "/32 host LOCAL" {
            found.extend(leaf);
        }
    }
    found
}

/// The directly reached networks, of `route`.
pub fn routes(text: &str) -> Vec<Route> {
    let hex = |word: Option<&str>| u32::from_str_radix(word?, 16).ok().map(u32::swap_bytes);
    let route = |line: &str| {
        // Iface Destination Gateway Flags RefCnt Use Metric Mask …
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let interface = name(words.first()?)?;
        let at = |place: usize| hex(words.get(place).copied());
        let (network, gateway, mask) = (at(1)?, at(2)?, at(7)?);
        (gateway == 0 && mask != 0).then_some(Route { interface, network, mask })
    };
    text.lines().skip(1).filter_map(route).collect()
}

/// The interface whose network has this address, the narrowest first; empty when there is none.
pub fn interface(routes: &[Route], ip: Ipv4Addr) -> &str {
    let has = |route: &&Route| u32::from(ip) & route.mask == route.network & route.mask;
    let found = routes.iter().filter(has).max_by_key(|route| route.mask.count_ones());
    found.map_or("", |route| &route.interface)
}

/// IPv4 addresses of virtual services, of `ip_vs`: `TCP  0A600001:01BB rr`.
pub fn services(text: &str) -> BTreeSet<Ipv4Addr> {
    let service = |line: &str| {
        let rest =
            line.strip_prefix("TCP").or(line.strip_prefix("UDP")).or(line.strip_prefix("SCTP"))?;
        let (address, _port) = rest.trim_start().split_once(':')?;
        let digits = address.len() == 8 && address.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then(|| u32::from_str_radix(address, 16).ok().map(Ipv4Addr::from)).flatten()
    };
    text.lines().filter_map(service).collect()
}

/// The host's IPv6 addresses, of `if_inet6`.
pub fn inet6(text: &str) -> Vec<HostAddress> {
    let address = |line: &str| {
        // address ifindex prefix-length scope flags name
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [address, _, _, _, flags, interface] = words.as_slice() else { return None };
        let digits = address.len() == 32 && address.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = digits.then(|| u128::from_str_radix(address, 16).ok()).flatten()?;
        // Somebody else has it, or that is still being asked.
        let unusable = u32::from_str_radix(flags, 16).ok()? & (0x08 | 0x40) != 0;
        let ip = Ipv6Addr::from(bits).into();
        (!unusable).then_some(HostAddress { interface: name(interface)?, ip })
    };
    text.lines().filter_map(address).collect()
}

/// The name of an interface.
pub fn name(text: &str) -> Option<String> {
    let fits = (1..=NAME).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    (fits && !text.contains('/')).then(|| text.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) const FIB_TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.1.0.0/16 2 0 2
        |-- 10.1.0.0
           /16 link UNICAST
        |-- 10.1.2.3
           /32 host LOCAL
        |-- 10.1.255.255
           /32 link BROADCAST
Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 10.1.2.3
        /32 host LOCAL
     |-- 192.168.7.9
        /32 host LOCAL
";
    pub(in super::super) const ROUTE: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100010A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0000010A\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0
bond1\t0002010A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
";
    pub(in super::super) const INET6: &str = "\
00000000000000000000000000000001 01 80 10 80       lo
fe80000000000000025056fffe000001 02 40 20 80     eth0
20010db8000000000000000000000007 02 40 00 80     eth0
20010db8000000000000000000000008 02 40 00 c8     eth0
";

    pub(in super::super) const IP_VS: &str = "\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> 0A010203:192B      Masq    1      2          0
UDP  0A60000A:0035 rr
TCP  0A010203:7530 rr
TCP  [20010db8000000000000000000000009]:01BB rr
";

    #[test]
    fn services_have_addresses_and_their_servers_are_others() {
        let found: Vec<String> = services(IP_VS).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.1.2.3", "10.96.0.1", "10.96.0.10"]);
    }

    #[test]
    fn own_addresses_and_their_interfaces() {
        let own: Vec<String> = local(FIB_TRIE).iter().map(ToString::to_string).collect();
        assert_eq!(own, ["10.1.2.3", "127.0.0.1", "192.168.7.9"]);
        let routes = routes(ROUTE);
        assert_eq!(routes.len(), 2);
        let of = |ip: &str| interface(&routes, ip.parse().unwrap()).to_owned();
        assert_eq!([of("10.1.2.3"), of("10.1.9.9"), of("192.168.7.9")], ["bond1", "eth0", ""]);
        let v6: Vec<String> = inet6(INET6).iter().map(|one| one.ip.to_string()).collect();
        assert_eq!(v6, ["::1", "fe80::250:56ff:fe00:1", "2001:db8::7"]);
    }

    proptest! {
        #[test]
        fn no_text_breaks_them(text in "(?s).{0,300}") {
            let routes = routes(&text);
            for ip in local(&text) {
                let _ = interface(&routes, ip);
            }
            prop_assert!(services(&text).len() <= text.lines().count());
            prop_assert!(inet6(&text).iter().all(|one| one.interface.len() <= NAME));
        }

        #[test]
        fn a_damaged_file_gives_no_more_than_a_good_one(
            at in 0usize..600, byte in "[ -~]", which in 0usize..4,
        ) {
            let mut text = [FIB_TRIE, ROUTE, INET6, IP_VS][which].to_owned();
            let at = at % text.len();
            text.replace_range(at..=at, &byte);
            // One of them stands there twice.
            prop_assert!(local(&text).len() <= 4);
            prop_assert!(routes(&text).len() <= 3);
            prop_assert!(inet6(&text).len() <= 4);
            prop_assert!(services(&text).len() <= 4);
        }
    }
}
