//! How devices and network cards are joined.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Malformed;

/// How two ends are joined, from nearest to farthest.
///
/// The words are those of `npu-smi info -t topo` and `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Join {
    /// Two dies of one package.
    Sio,
    /// A direct coherent link.
    Hccs,
    /// The same through a switch.
    HccsSwitch,
    /// A bonded set of so many NVLinks.
    NvLink(u8),
    /// At most one PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// A PCIe host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// Across NUMA nodes.
    Sys,
    /// Nobody knows how the two are joined.
    Na,
}

/// An end of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The NPU of this physical id.
    Npu(u32),
    /// The GPU of this index.
    Gpu(u32),
    /// The NIC at this place of [`Inventory::nics`](super::Inventory::nics).
    Nic(u32),
}

/// Two ends and how they are joined; `a < b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// The end that sorts first.
    pub a: End,
    /// The end that sorts second.
    pub b: End,
    /// How the two are joined.
    pub join: Join,
}

// === impl Join ===

impl fmt::Display for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Sio => "SIO",
            Self::Hccs => "HCCS",
            Self::HccsSwitch => "HCCS_SW",
            Self::NvLink(count) => return f.pad(&format!("NV{count}")),
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
            Self::Na => "NA",
        };
        f.pad(word)
    }
}

impl FromStr for Join {
    type Err = Malformed;

    fn from_str(word: &str) -> Result<Self, Malformed> {
        Ok(match word {
            "SIO" => Self::Sio,
            "HCCS" => Self::Hccs,
            "HCCS_SW" => Self::HccsSwitch,
            "PIX" => Self::Pix,
            "PXB" => Self::Pxb,
            "PHB" => Self::Phb,
            "NODE" => Self::Node,
            "SYS" => Self::Sys,
            "NA" | "N/A" => Self::Na,
            _ => match word.strip_prefix("NV").and_then(|count| count.parse().ok()) {
                Some(count) => Self::NvLink(count),
                None => return Err(Malformed::new("kind of link", word)),
            },
        })
    }
}

impl Serialize for Join {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Join {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

// === impl End ===

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Npu(id) => format!("NPU{id}"),
            Self::Gpu(id) => format!("GPU{id}"),
            Self::Nic(at) => format!("NIC{at}"),
        };
        f.pad(&name)
    }
}
