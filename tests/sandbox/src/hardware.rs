//! Hardware profiles: what a simulated node is made of, and the same laid out as files.
//!
//! A [`Profile`] says what the node's device plugin and its owner would say of it (devices, labels,
//! capacity). [`Profile::lay_out`] writes the device files, the PCI tree, the driver's files and stand-ins
//! for the vendor's tools below a root directory, so that a program that discovers devices finds them
//! there. Two nodes of one profile differ by their index: addresses, identifiers, serials.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::str::FromStr;

mod ascend_310p;
mod ascend_910a;
mod ascend_910b;
mod ascend_a3;
mod ascend_tools;
mod nvidia_h100;
#[cfg(test)]
mod tests;
mod tools;
mod tree;

use tree::Tree;

/// What a node is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Profile {
    /// 8 × Ascend 910A in two rings of four, a port each.
    Ascend910a8,
    /// 8 × Ascend 910B3, a port each.
    Ascend910b8,
    /// 8 Ascend A3 of two dies each, part of a supernode.
    AscendA316,
    /// 4 cards of two Ascend 310P each, without ports.
    Ascend310p,
    /// 8 × H100 with NVLink and 8 network cards.
    NvidiaH1008,
    /// A node without devices.
    Cpu,
}

/// One device as its plugin announces it.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The plugin's id: `Ascend910-0`, `GPU-…`.
    pub id: String,
    /// Its NUMA node, where the machine tells.
    pub numa: Option<i64>,
    /// Its device file.
    pub path: String,
    /// The environment variable that names the devices of a container.
    pub visible_env: &'static str,
    /// Its name in that variable.
    pub visible_as: String,
}

/// Deviations for tests of discovery; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// H100: device 0 has minor 3 and device 3 has minor 0.
    pub swapped_minors: bool,
    /// H100: the driver knows no UUID of device 2.
    pub unknown_uuid: bool,
    /// H100: device 7 has no NUMA node. (Two cards of the 310P never have one.)
    pub unknown_numa: bool,
    /// 910B: `hccn.conf` ends after an address.
    pub truncated_hccn: bool,
}

/// All hardware profiles.
pub const PROFILES: [Profile; 6] = [
    Profile::Ascend910a8,
    Profile::Ascend910b8,
    Profile::AscendA316,
    Profile::Ascend310p,
    Profile::NvidiaH1008,
    Profile::Cpu,
];

/// A name that is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown hardware profile {0:?}; there are ascend-910a-8, ascend-910b-8, ascend-a3-16, ascend-310p, nvidia-h100-8 and cpu"
)]
pub struct UnknownProfile(pub String);

// === impl Profile ===

impl Profile {
    /// Its name, as on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascend910a8 => "ascend-910a-8",
            Self::Ascend910b8 => "ascend-910b-8",
            Self::AscendA316 => "ascend-a3-16",
            Self::Ascend310p => "ascend-310p",
            Self::NvidiaH1008 => "nvidia-h100-8",
            Self::Cpu => "cpu",
        }
    }

    /// The extended resource of its devices.
    pub fn resource(self) -> Option<&'static str> {
        match self {
            Self::Ascend910a8 | Self::Ascend910b8 | Self::AscendA316 => {
                Some("huawei.com/Ascend910")
            }
            Self::Ascend310p => Some("huawei.com/Ascend310P"),
            Self::NvidiaH1008 => Some("nvidia.com/gpu"),
            Self::Cpu => None,
        }
    }

    /// Its devices on the node of this index.
    pub fn devices(self, index: u32) -> Vec<Device> {
        match self {
            Self::Ascend910a8 => ascend_910a::devices(),
            Self::Ascend910b8 => ascend_910b::devices(),
            Self::AscendA316 => ascend_a3::devices(),
            Self::Ascend310p => ascend_310p::devices(),
            Self::NvidiaH1008 => nvidia_h100::devices(index),
            Self::Cpu => Vec::new(),
        }
    }

    /// `amd64` or `arm64`.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Ascend910a8 | Self::Ascend910b8 | Self::AscendA316 | Self::Ascend310p => "arm64",
            Self::NvidiaH1008 | Self::Cpu => "amd64",
        }
    }

    /// Labels that the vendor's plugin and the owner give such a node.
    pub fn labels(self, index: u32) -> BTreeMap<String, String> {
        let pairs: Vec<(&str, String)> = match self {
            Self::Ascend910a8 => ascend_910a::labels(),
            Self::Ascend910b8 => ascend_910b::labels(),
            Self::AscendA316 => ascend_a3::labels(index),
            Self::Ascend310p => ascend_310p::labels(),
            Self::NvidiaH1008 => nvidia_h100::labels(),
            Self::Cpu => Vec::new(),
        };
        let kind = ("node.kubernetes.io/instance-type", self.name().to_owned());
        pairs.into_iter().chain([kind]).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// `cpu`, `memory`, `ephemeral-storage` and `pods` of such a node.
    pub fn capacity(self) -> [(&'static str, &'static str); 4] {
        let (cpu, memory) = match self {
            Self::Ascend910a8 => ("192", "805306368Ki"),
            Self::Ascend910b8 => ("192", "1610612736Ki"),
            Self::AscendA316 => ("320", "2147483648Ki"),
            Self::Ascend310p => ("96", "536870912Ki"),
            Self::NvidiaH1008 => ("224", "2147483648Ki"),
            Self::Cpu => ("64", "268435456Ki"),
        };
        [("cpu", cpu), ("memory", memory), ("ephemeral-storage", "943718400Ki"), ("pods", "110")]
    }

    /// Writes the node of this index as files below `root`.
    pub fn lay_out(self, root: &Path, index: u32) -> io::Result<()> {
        self.lay_out_with(root, index, Quirks::default())
    }

    /// The same with deviations.
    pub fn lay_out_with(self, root: &Path, index: u32, quirks: Quirks) -> io::Result<()> {
        let tree = Tree::at(root)?;
        match self {
            Self::Ascend910a8 => ascend_910a::lay_out(&tree, index),
            Self::Ascend910b8 => ascend_910b::lay_out(&tree, index, quirks),
            Self::AscendA316 => ascend_a3::lay_out(&tree, index),
            Self::Ascend310p => ascend_310p::lay_out(&tree),
            Self::NvidiaH1008 => nvidia_h100::lay_out(&tree, index, quirks),
            Self::Cpu => Ok(()),
        }
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        PROFILES.into_iter().find(|p| p.name() == name).ok_or_else(|| UnknownProfile(name.into()))
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Device ===

impl Device {
    /// The Ascend device of this number; `kind` is the resource's short name.
    fn ascend(kind: &str, number: usize, numa: Option<i64>) -> Self {
        Self {
            id: format!("{kind}-{number}"),
            numa,
            path: format!("/dev/davinci{number}"),
            visible_env: "ASCEND_VISIBLE_DEVICES",
            visible_as: number.to_string(),
        }
    }
}
