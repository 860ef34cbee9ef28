//! Where a connection comes from, as far as limits are concerned.

use std::net::{IpAddr, Ipv4Addr};

/// An IPv4 address, or a network of IPv6: whoever has one address of a /64 has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// One address.
    V4(Ipv4Addr),
    /// The first 64 bits.
    V6([u16; 4]),
}

// === impl Source ===

impl Source {
    /// That of an address. A listener of both families writes IPv4 addresses as IPv6.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_one_source_and_so_is_a_network_of_ipv6() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"), "as a listener of both families says it");
        assert_ne!(of("::ffff:10.0.0.1"), of("::ffff:10.0.0.2"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }
}
