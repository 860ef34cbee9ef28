//! What a node's hardware is: devices, their ports, and how they are joined.
//!
//! An [`Inventory`] is a value: two that are equal say the same, in the same order, so that an unchanged one
//! need not be sent. Lists are sorted when [`Inventory::sort`] has been called; discovery always calls it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

mod join;
mod pci;

pub use join::{End, Join, Link};
pub use pci::PciAddress;

/// Who made a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// Huawei, with Ascend NPUs.
    Ascend,
    /// NVIDIA, with GPUs.
    Nvidia,
}

/// The generation of a chip, as far as anything depends on it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Chip {
    /// Ascend 910 (A): two HCCS rings of four.
    Ascend910a,
    /// Ascend 910B (A2): eight in a full mesh.
    Ascend910b,
    /// Ascend 910 (A3): two dies per NPU, super-pods.
    AscendA3,
    /// Ascend 310P: no ports.
    Ascend310p,
    /// Ascend 310, for inference.
    Ascend310,
    /// Ascend 310B, for inference.
    Ascend310b,
    /// Ascend 950 (A5).
    AscendA5,
    /// Any NVIDIA GPU.
    NvidiaGpu,
    /// The agent could not find it out.
    #[default]
    Unknown,
}

/// How a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", content = "reason", rename_all = "lowercase")]
pub enum Health {
    /// The device works.
    Ok,
    /// It works, and somebody should look at it.
    Degraded(String),
    /// It must not be given to anybody.
    Faulty(String),
    /// Nobody has said.
    #[default]
    Unknown,
}

/// Whether a port has a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortState {
    /// The port has a link.
    Up,
    /// It has not.
    Down,
    /// Nobody has said, or there is no port.
    #[default]
    Unknown,
}

/// A multi-node NVLink domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fabric {
    /// The NVLink domain.
    pub cluster_uuid: String,
    /// The partition of it that can talk.
    pub clique_id: u32,
}

/// A slice of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mig {
    /// The slice's UUID, `MIG-…`.
    pub uuid: String,
    /// Its size, such as `1g.10gb`.
    pub profile: String,
}

/// The switch port that a device's port is plugged into.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Neighbour {
    /// The switch: its name, else its MAC address.
    pub switch: String,
    /// The switch's name for its port.
    pub port: String,
}

/// One device: a die of an NPU, or a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Who made it.
    pub vendor: Vendor,
    /// Ascend: the physical id, the N of `/dev/davinciN`. NVIDIA: the index, in order of PCI addresses.
    pub id: u32,
    /// The chip's generation.
    pub chip: Chip,
    /// What its vendor calls it: `910B3`, `NVIDIA H100 80GB HBM3`. Empty when nobody has said.
    pub model: String,
    /// Its device file on the node, `/dev/davinci0`.
    pub path: String,
    /// How it is.
    pub health: Health,
    /// Ascend: dense index of visible chips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logic_id: Option<u32>,
    /// Ascend: the card (NPU id) and the chip on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<(u32, u32)>,
    /// UUID of an NVIDIA GPU, `GPU-…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// NVIDIA: the N of `/dev/nvidiaN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// NVIDIA: the driver's own number of it, which tools and device plugins mean by an index. It differs from
    /// `id` when the driver does not count a GPU that is listed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_index: Option<u32>,
    /// Where it is plugged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<PciAddress>,
    /// The memory that is near it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u32>,
    /// The cores that are near it, `144-167`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Address of its own port (Ascend), or of the nearest NIC (NVIDIA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// Ascend A3: its address on the super-pod's network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnic_ip: Option<IpAddr>,
    /// Whether that port has a link.
    #[serde(default)]
    pub port: PortState,
    /// What the port is plugged into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<Neighbour>,
    /// Ascend A3: what names it in its super-pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub super_device_id: Option<u32>,
    /// The group of this node's devices that it is joined to directly: HCCS ring or mesh, NVLink island.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub island: Option<u32>,
    /// NVIDIA: the NVLink domain across nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// NVIDIA: the nearest NIC, `mlx5_0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// NVIDIA: its slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig: Vec<Mig>,
}

/// A network card that can do RDMA; one per port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nic {
    /// The kernel's name of the card, such as `mlx5_0`.
    pub name: String,
    /// 1 for the first.
    pub port: u32,
    /// Where it is plugged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<PciAddress>,
    /// The memory that is near it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u32>,
    /// Its network interface, `eth_rdma0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
    /// Whether it has a link.
    pub state: PortState,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// Gigabits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// The GID to use and its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<(u32, String)>,
    /// The address in that GID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
}

/// The driver of one vendor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Driver {
    /// Whose driver it is.
    pub vendor: Vendor,
    /// The version as the driver prints it, such as `25.2.0`.
    pub version: String,
}

/// Where a node is in a super-pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuperPod {
    /// Number of the super-pod.
    pub id: u32,
    /// The node's number in it.
    pub server_index: u32,
    /// How many dies it has, where the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
}

/// An address of the node itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostAddress {
    /// The interface; empty when nobody knows.
    pub interface: String,
    /// An address of the host.
    pub ip: IpAddr,
}

/// Everything that an agent knows about the hardware of its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// Whether every source has been heard: false in the first moments, when only files have been read and
    /// the vendors' slow tools have not answered yet.
    pub settled: bool,
    /// Drivers that are there.
    pub drivers: Vec<Driver>,
    /// The devices, by vendor and id.
    pub devices: Vec<Device>,
    /// The network cards, by name and port.
    pub nics: Vec<Nic>,
    /// How all of them are joined: each pair once.
    pub links: Vec<Link>,
    /// The node's place in a super-pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub super_pod: Option<SuperPod>,
    /// The node's own addresses.
    pub addresses: Vec<HostAddress>,
    /// What names the server in rank tables: one of its addresses, once it is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
}

/// A text that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}")]
pub struct Malformed {
    /// What it should be.
    pub what: &'static str,
    /// The text, cut short.
    pub text: String,
}

// === impl Malformed ===

impl Malformed {
    /// Of this text, of which at most 64 characters are kept.
    pub fn new(what: &'static str, text: &str) -> Self {
        Self { what, text: text.chars().take(64).collect() }
    }
}

// === impl Device ===

impl Device {
    /// A device of which nothing else is known yet.
    pub fn new(vendor: Vendor, id: u32, path: impl Into<String>) -> Self {
        Self {
            vendor,
            id,
            chip: Chip::Unknown,
            model: String::new(),
            path: path.into(),
            health: Health::Unknown,
            logic_id: None,
            card: None,
            uuid: None,
            minor: None,
            driver_index: None,
            pci: None,
            numa: None,
            cpus: None,
            ip: None,
            vnic_ip: None,
            port: PortState::Unknown,
            neighbour: None,
            super_device_id: None,
            island: None,
            fabric: None,
            nic: None,
            mig: Vec::new(),
        }
    }

    /// The end that it is in a [`Link`].
    pub fn end(&self) -> End {
        match self.vendor {
            Vendor::Ascend => End::Npu(self.id),
            Vendor::Nvidia => End::Gpu(self.id),
        }
    }
}

// === impl Health ===

impl Health {
    /// Whether the device may be given to somebody.
    pub fn usable(&self) -> bool {
        !matches!(self, Self::Faulty(_))
    }

    /// The health in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded(_) => "degraded",
            Self::Faulty(_) => "faulty",
            Self::Unknown => "unknown",
        }
    }
}

// === impl Inventory ===

impl Inventory {
    /// Puts everything into its one order.
    pub fn sort(&mut self) {
        self.drivers.sort_by_key(|driver| driver.vendor);
        self.devices.sort_by_key(|device| (device.vendor, device.id));
        self.nics.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)).then(a.port.cmp(&b.port)));
        self.addresses.sort();
        self.addresses.dedup();
        for link in &mut self.links {
            if link.a > link.b {
                std::mem::swap(&mut link.a, &mut link.b);
            }
        }
        self.links.sort();
        self.links.dedup_by_key(|link| (link.a, link.b));
    }

    /// The device of this vendor and id.
    pub fn device(&self, vendor: Vendor, id: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.vendor == vendor && device.id == id)
    }

    /// How two ends are joined.
    pub fn join(&self, a: End, b: End) -> Join {
        let (a, b) = (a.min(b), a.max(b));
        let found = self.links.binary_search_by_key(&(a, b), |link| (link.a, link.b));
        found.ok().and_then(|at| self.links.get(at)).map_or(Join::Na, |link| link.join)
    }
}

/// Splits a name into its text and the number at its end, so that `mlx5_10` comes after `mlx5_9`.
fn natural(name: &str) -> (&str, u64) {
    let text = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (text, name.get(text.len()..).and_then(|digits| digits.parse().ok()).unwrap_or(0))
}

// === impl Chip ===

impl Chip {
    /// Whether its devices have ports of their own.
    pub fn has_port(self) -> bool {
        matches!(self, Self::Ascend910a | Self::Ascend910b | Self::AscendA3)
    }
}

#[cfg(test)]
mod tests;
