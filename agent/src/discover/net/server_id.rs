//! Which address names the node in rank tables.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use muster_proto::device::{HostAddress, Malformed};

use super::parse;

/// Where the node's `server_id` is taken from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerIdSource {
    /// The InternalIP of the Node object.
    #[default]
    InternalIp,
    /// The address of an interface.
    Interface(String),
    /// The address in a network.
    Cidr {
        /// An address of the network.
        network: IpAddr,
        /// How many bits of it count.
        prefix: u8,
    },
    /// This one, whatever the host has.
    Address(IpAddr),
}

/// Why there is no `server_id`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoServerId {
    /// The Node object has none, or has not been seen yet.
    #[error("the node has no InternalIP; give --server-id an interface, a network or an address")]
    NoInternalIp,
    /// No address of the host is what was asked for.
    #[error("no address of the node is {wanted}; there are {there}")]
    NoAddress {
        /// The interface or network.
        wanted: ServerIdSource,
        /// What there is, cut short.
        there: String,
    },
}

// === impl NoServerId ===

impl NoServerId {
    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoInternalIp => "no-internal-ip",
            Self::NoAddress { .. } => "no-such-address",
        }
    }
}

// === impl ServerIdSource ===

impl fmt::Display for ServerIdSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InternalIp => f.write_str("internal-ip"),
            Self::Interface(name) => write!(f, "interface={name}"),
            Self::Cidr { network, prefix } => write!(f, "cidr={network}/{prefix}"),
            Self::Address(ip) => write!(f, "{ip}"),
        }
    }
}

impl FromStr for ServerIdSource {
    type Err = Malformed;

    /// Takes `internal-ip`, `interface=eth0`, `cidr=10.0.0.0/8` and an address.
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let what = "server id (internal-ip, interface=NAME, cidr=NETWORK/BITS or an address)";
        let malformed = || Malformed::new(what, text);
        if text == "internal-ip" {
            return Ok(Self::InternalIp);
        }
        if let Some(name) = text.strip_prefix("interface=") {
            return parse::name(name).map(Self::Interface).ok_or_else(malformed);
        }
        let Some(cidr) = text.strip_prefix("cidr=") else {
            return text.parse().map(Self::Address).map_err(|_| malformed());
        };
        let (network, prefix) = cidr.split_once('/').ok_or_else(malformed)?;
        let network: IpAddr = network.parse().map_err(|_| malformed())?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = prefix.parse().map_err(|_| malformed())?;
        if prefix > most {
            return Err(malformed());
        }
        Ok(Self::Cidr { network, prefix })
    }
}

/// The node's `server_id`. Of several addresses: IPv4 before IPv6, the lowest first.
pub fn server_id(
    source: &ServerIdSource,
    addresses: &[HostAddress],
    internal_ip: Option<IpAddr>,
) -> Result<IpAddr, NoServerId> {
    let wanted: &dyn Fn(&HostAddress) -> bool = match source {
        ServerIdSource::InternalIp => return internal_ip.ok_or(NoServerId::NoInternalIp),
        ServerIdSource::Address(ip) => return Ok(*ip),
        ServerIdSource::Interface(name) => &|one| one.interface == *name,
        ServerIdSource::Cidr { network, prefix } => &|one| within(*network, *prefix, one.ip),
    };
    // IpAddr's own order is IPv4 first.
    let lowest = addresses.iter().filter(|one| wanted(one)).map(|one| one.ip).min();
    lowest.ok_or_else(|| NoServerId::NoAddress { wanted: source.clone(), there: listed(addresses) })
}

fn within(network: IpAddr, prefix: u8, ip: IpAddr) -> bool {
    let (a, b, width) = match (network, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a), u128::from(b), 128),
        _ => return false,
    };
    let ignored = u32::from(width - prefix.min(width));
    (a ^ b).checked_shr(ignored).unwrap_or(0) == 0
}

fn listed(addresses: &[HostAddress]) -> String {
    const SHOWN: usize = 8;
    let one = |address: &HostAddress| match address.interface.as_str() {
        "" => address.ip.to_string(),
        name => format!("{} on {name}", address.ip),
    };
    let mut shown: Vec<String> = addresses.iter().take(SHOWN).map(one).collect();
    match addresses.len() {
        0 => return "none".to_owned(),
        count if count > SHOWN => shown.push(format!("{} more", count - SHOWN)),
        _ => {}
    }
    shown.join(", ")
}
