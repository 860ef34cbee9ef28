//! What a kubelet's device id means: whose device, which one, and whether the whole of it.
//!
//! ```text
//!   Ascend910-3  npu-3  3          NPU 3
//!   Ascend910-2c-111-0             vNPU 111 of NPU 0
//!   Ascend310P-0-99                share 99 of NPU 0
//!   …_1                            the same, in a group of vNPUs
//!   GPU-1f…  0                     the GPU that the inventory knows by it
//!   MIG-7a…                        the GPU that has this slice
//!   GPU-1f…::2                     replica 2 of that GPU
//! ```
//!
//! Pure: it reads nothing but its arguments.

use std::fmt::{self, Display};
use std::str::FromStr;

use muster_proto::device::{Inventory, Malformed, Vendor};

/// A longer id is no id.
const LONGEST: usize = 256;

/// Which device an id means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Who made it.
    pub vendor: Vendor,
    /// Its id on the node.
    pub id: u32,
    /// The slice or replica, where it is not the whole device.
    pub part: Option<String>,
}

/// A resource whose devices are ours to tell of: a name, or the beginning of one before a `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceName {
    /// Whose devices it counts.
    pub vendor: Vendor,
    /// The name, or its beginning and a star: `huawei.com/Ascend*`.
    pub pattern: String,
}

/// All such resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceNames(pub Vec<ResourceName>);

// === impl DeviceId ===

impl DeviceId {
    /// The device that a vendor's plugin means by this text. `None`: the text is none, or means a device that the
    /// inventory does not have and that only the inventory could number.
    pub fn parse(vendor: Vendor, text: &str, inventory: &Inventory) -> Option<Self> {
        if text.is_empty() || text.len() > LONGEST {
            return None;
        }
        match vendor {
            Vendor::Ascend => ascend(text),
            Vendor::Nvidia => nvidia(text, inventory),
        }
    }

    /// Whether it is the whole device.
    pub fn is_whole(&self) -> bool {
        self.part.is_none()
    }
}

fn ascend(text: &str) -> Option<DeviceId> {
    let bare = text.split_once('_').map_or(text, |(bare, _group)| bare);
    let mut parts = bare.rsplit('-');
    let last = number(parts.next()?)?;
    let of = |id, part: Option<&str>| {
        Some(DeviceId { vendor: Vendor::Ascend, id, part: part.map(str::to_owned) })
    };
    let Some(before) = parts.next() else { return of(last, None) };
    match (number(before), parts.next()) {
        // Only a number and a number before it: nothing says which is the device.
        (Some(_), None) => None,
        (Some(_), Some(template)) if is_template(template) => of(last, Some(text)),
        (Some(device), Some(_)) => of(device, Some(text)),
        (None, _) if before.is_empty() || is_template(before) => None,
        (None, _) => of(last, None),
    }
}

/// `2c`, `12c.3cpu.32g`: how a vNPU is cut.
fn is_template(text: &str) -> bool {
    let cores = text.split('.').next().unwrap_or_default();
    cores.strip_suffix('c').is_some_and(|cores| number(cores).is_some())
}

fn nvidia(text: &str, inventory: &Inventory) -> Option<DeviceId> {
    let of = |id, part: Option<&str>| {
        Some(DeviceId { vendor: Vendor::Nvidia, id, part: part.map(str::to_owned) })
    };
    let (bare, replica) = match text.split_once("::") {
        Some((bare, _number)) => (bare, Some(text)),
        None => (text, None),
    };
    let gpus = inventory.devices.iter().filter(|device| device.vendor == Vendor::Nvidia);
    let of_uuid = |uuid: &str| {
        let same = |known: &String| known.eq_ignore_ascii_case(uuid);
        gpus.clone().find(|gpu| gpu.uuid.as_ref().is_some_and(same))
    };
    // The plugin counts as the driver does, which leaves out what it does not drive; we count what is plugged in.
    let of_index = |index: u32| {
        if gpus.clone().all(|gpu| gpu.driver_index.is_none()) {
            return Some(index);
        }
        gpus.clone().find(|gpu| gpu.driver_index == Some(index)).map(|gpu| gpu.id)
    };
    if let Some(index) = number(bare) {
        return of(of_index(index)?, replica);
    }
    if let Some(slice) = bare.strip_prefix("MIG-") {
        // Old drivers name a slice by its GPU: MIG-GPU-…/1/0.
        if let Some((uuid, _)) = slice.split_once('/') {
            return of(of_uuid(uuid)?.id, Some(text));
        }
        let has = |mig: &muster_proto::device::Mig| mig.uuid.eq_ignore_ascii_case(bare);
        let gpu = gpus.clone().find(|gpu| gpu.mig.iter().any(has))?;
        return of(gpu.id, Some(text));
    }
    if let Some((gpu, slice)) = bare.split_once(':') {
        number(slice)?;
        return of(of_index(number(gpu)?)?, Some(text));
    }
    of(of_uuid(bare)?.id, replica)
}

/// Digits and nothing else: no sign, no space.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

// === impl ResourceName ===

impl ResourceName {
    fn matches(&self, resource: &str) -> bool {
        match self.pattern.strip_suffix('*') {
            Some(beginning) => resource.starts_with(beginning),
            None => resource == self.pattern,
        }
    }
}

impl FromStr for ResourceName {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed::new("resource such as ascend:huawei.com/Ascend*", text);
        let (vendor, pattern) = text.split_once(':').ok_or_else(malformed)?;
        let vendor = match vendor {
            "ascend" => Vendor::Ascend,
            "nvidia" => Vendor::Nvidia,
            _ => return Err(malformed()),
        };
        let inside = pattern.strip_suffix('*').unwrap_or(pattern);
        let (domain, _name) = inside.split_once('/').ok_or_else(malformed)?;
        if domain.is_empty() || inside.contains(['*', ' ']) || pattern.ends_with('/') {
            return Err(malformed());
        }
        Ok(Self { vendor, pattern: pattern.to_owned() })
    }
}

impl Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vendor = match self.vendor {
            Vendor::Ascend => "ascend",
            Vendor::Nvidia => "nvidia",
        };
        write!(f, "{vendor}:{}", self.pattern)
    }
}

// === impl ResourceNames ===

impl ResourceNames {
    /// Adds one as people write it: `vendor:name`, where the name may end in `*`.
    pub fn add(&mut self, text: &str) -> Result<(), Malformed> {
        self.0.push(text.parse()?);
        Ok(())
    }

    /// Whose devices a resource counts; `None`: it is none of ours.
    pub fn vendor(&self, resource: &str) -> Option<Vendor> {
        self.0.iter().find(|name| name.matches(resource)).map(|name| name.vendor)
    }
}

impl Default for ResourceNames {
    /// What the vendors' plugins register, and the name that rank-table designs use.
    fn default() -> Self {
        let of = |vendor, patterns: &[&str]| -> Vec<ResourceName> {
            let name = |pattern: &&str| ResourceName { vendor, pattern: (*pattern).to_owned() };
            patterns.iter().map(name).collect()
        };
        let mut names = of(
            Vendor::Ascend,
            &["huawei.com/Ascend*", "huawei.com/npu", "huawei.com/npu-core", "ascend.com/npu"],
        );
        let gpus = ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"];
        names.extend(of(Vendor::Nvidia, &gpus));
        Self(names)
    }
}

#[cfg(test)]
mod tests {
    use muster_proto::device::{Device, Mig};
    use proptest::prelude::*;

    use super::*;

    fn inventory() -> Inventory {
        let mut gpu = Device::new(Vendor::Nvidia, 3, "/dev/nvidia3");
        gpu.uuid = Some("GPU-1f".into());
        gpu.mig = vec![Mig { uuid: "MIG-7a".into(), profile: "1g.10gb".into() }];
        Inventory { devices: vec![gpu], ..Inventory::default() }
    }

    #[test]
    fn every_form_of_an_ascend_id_names_its_npu() {
        for (text, id, whole) in [
            ("Ascend910-3", 3, true),
            ("npu-3", 3, true),
            ("3", 3, true),
            ("Ascend310P-0", 0, true),
            ("Ascend310P-V-5", 5, true),
            ("Ascend910-15_2", 15, true),
            ("Ascend910-2c-111-0", 0, false),
            ("Ascend910-12c.3cpu.32g-111-6", 6, false),
            ("Ascend310P-4c.3cpu.ndvpp-103-2_1", 2, false),
            ("Ascend310P-1-99", 1, false),
        ] {
            let part = (!whole).then(|| text.to_owned());
            let expected = Some(DeviceId { vendor: Vendor::Ascend, id, part });
            assert_eq!(DeviceId::parse(Vendor::Ascend, text, &inventory()), expected, "{text}");
        }
        for text in ["", "Ascend910", "Ascend910-", "-3", "3-4", "Ascend910-x", "a-99999999999"] {
            assert_eq!(DeviceId::parse(Vendor::Ascend, text, &inventory()), None, "{text}");
        }
    }

    #[test]
    fn every_form_of_a_gpu_id_names_its_gpu() {
        for (text, id, whole) in [
            ("GPU-1f", 3, true),
            ("gpu-1F", 3, true),
            ("7", 7, true),
            ("GPU-1f::2", 3, false),
            ("7::0", 7, false),
            ("MIG-7a", 3, false),
            ("MIG-7a::1", 3, false),
            ("MIG-GPU-1f/1/0", 3, false),
            ("3:1", 3, false),
        ] {
            let part = (!whole).then(|| text.to_owned());
            let expected = Some(DeviceId { vendor: Vendor::Nvidia, id, part });
            assert_eq!(DeviceId::parse(Vendor::Nvidia, text, &inventory()), expected, "{text}");
        }
        for text in ["GPU-2f", "MIG-7b", "MIG-GPU-2f/1/0", "all", "void", "::1", "1:x"] {
            assert_eq!(DeviceId::parse(Vendor::Nvidia, text, &inventory()), None, "{text}");
        }
    }

    #[test]
    fn the_number_of_a_gpu_is_the_drivers_where_the_driver_has_told_it() {
        let mut inventory = inventory();
        inventory.devices[0].driver_index = Some(0);
        for (text, id) in [
            ("0", Some(3)),
            ("0:1", Some(3)),
            ("0::4", Some(3)),
            ("3", None),
            ("3:1", None),
            ("GPU-1f", Some(3)),
        ] {
            let read = DeviceId::parse(Vendor::Nvidia, text, &inventory).map(|read| read.id);
            assert_eq!(read, id, "{text}");
        }
    }

    #[test]
    fn the_resources_of_both_vendors_are_known_and_others_are_not() {
        let names = ResourceNames::default();
        for (resource, vendor) in [
            ("huawei.com/Ascend910", Some(Vendor::Ascend)),
            ("huawei.com/Ascend310P-2c.1cpu", Some(Vendor::Ascend)),
            ("huawei.com/npu-core", Some(Vendor::Ascend)),
            ("ascend.com/npu", Some(Vendor::Ascend)),
            ("nvidia.com/gpu.shared", Some(Vendor::Nvidia)),
            ("nvidia.com/mig-1g.10gb.shared", Some(Vendor::Nvidia)),
            ("nvidia.com/hostdev", None),
            ("rdma/hca", None),
        ] {
            assert_eq!(names.vendor(resource), vendor, "{resource}");
        }
        for name in &names.0 {
            assert_eq!(name.to_string().parse(), Ok(name.clone()));
        }
        for text in
            ["", "huawei.com/npu", "amd:amd.com/gpu", "ascend:npu", "ascend:a/*b*", "ascend:a/"]
        {
            assert!(text.parse::<ResourceName>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_id_is_too_strange(text in "\\PC{0,40}", parts in "[A-Za-z0-9_:/.-]{0,40}") {
            for text in [text, parts] {
                for vendor in [Vendor::Ascend, Vendor::Nvidia] {
                    let _read = DeviceId::parse(vendor, &text, &inventory());
                }
                let _read = text.parse::<ResourceName>();
            }
        }

        #[test]
        fn the_number_of_a_whole_npu_reads_back(name in "[A-Za-z][A-Za-z0-9]{0,9}", id: u32) {
            let read = DeviceId::parse(Vendor::Ascend, &format!("{name}-{id}"), &inventory());
            prop_assert_eq!(read, Some(DeviceId { vendor: Vendor::Ascend, id, part: None }));
        }
    }
}
