//! Hardware on the wire.

use super::reader::{Invalid, ip, ip_bytes, list, maybe, small, text};
use super::{MOST_ADDRESSES, MOST_DEVICES, MOST_LINKS, MOST_NICS, MOST_PARTS, v1};
use crate::device::{
    Chip, Device, Driver, End, Fabric, Health, HostAddress, Inventory, Join, Link, Mig, Neighbour,
    Nic, PciAddress, PortState, SuperPod, Vendor,
};

pub(super) fn vendor_number(vendor: Vendor) -> i32 {
    match vendor {
        Vendor::Ascend => v1::Vendor::Ascend.into(),
        Vendor::Nvidia => v1::Vendor::Nvidia.into(),
    }
}

pub(super) fn vendor(field: &str, number: i32) -> Result<Vendor, Invalid> {
    match v1::Vendor::try_from(number) {
        Ok(v1::Vendor::Ascend) => Ok(Vendor::Ascend),
        Ok(v1::Vendor::Nvidia) => Ok(Vendor::Nvidia),
        _ => Err(Invalid::new(field, format!("is {number}, which is no vendor"))),
    }
}

fn chip_number(chip: Chip) -> i32 {
    let chip = match chip {
        Chip::Unknown => v1::Chip::Unknown,
        Chip::Ascend910a => v1::Chip::Ascend910a,
        Chip::Ascend910b => v1::Chip::Ascend910b,
        Chip::AscendA3 => v1::Chip::AscendA3,
        Chip::Ascend310p => v1::Chip::Ascend310p,
        Chip::Ascend310 => v1::Chip::Ascend310,
        Chip::Ascend310b => v1::Chip::Ascend310b,
        Chip::AscendA5 => v1::Chip::AscendA5,
        Chip::NvidiaGpu => v1::Chip::NvidiaGpu,
    };
    chip.into()
}

/// A chip of a newer agent is one that we do not know.
fn chip(number: i32) -> Chip {
    match v1::Chip::try_from(number).unwrap_or_default() {
        v1::Chip::Unknown => Chip::Unknown,
        v1::Chip::Ascend910a => Chip::Ascend910a,
        v1::Chip::Ascend910b => Chip::Ascend910b,
        v1::Chip::AscendA3 => Chip::AscendA3,
        v1::Chip::Ascend310p => Chip::Ascend310p,
        v1::Chip::Ascend310 => Chip::Ascend310,
        v1::Chip::Ascend310b => Chip::Ascend310b,
        v1::Chip::AscendA5 => Chip::AscendA5,
        v1::Chip::NvidiaGpu => Chip::NvidiaGpu,
    }
}

fn port_number(port: PortState) -> i32 {
    let port = match port {
        PortState::Up => v1::PortState::PortUp,
        PortState::Down => v1::PortState::PortDown,
        PortState::Unknown => v1::PortState::PortUnknown,
    };
    port.into()
}

fn port(number: i32) -> PortState {
    match v1::PortState::try_from(number).unwrap_or_default() {
        v1::PortState::PortUp => PortState::Up,
        v1::PortState::PortDown => PortState::Down,
        v1::PortState::PortUnknown => PortState::Unknown,
    }
}

fn health_parts(health: &Health) -> (i32, String) {
    let (state, reason) = match health {
        Health::Ok => (v1::HealthState::HealthOk, ""),
        Health::Degraded(reason) => (v1::HealthState::HealthDegraded, reason.as_str()),
        Health::Faulty(reason) => (v1::HealthState::HealthFaulty, reason.as_str()),
        Health::Unknown => (v1::HealthState::HealthUnknown, ""),
    };
    (state.into(), reason.to_owned())
}

fn health(number: i32, reason: String) -> Result<Health, Invalid> {
    let reason = text("health_reason", reason)?;
    Ok(match v1::HealthState::try_from(number).unwrap_or_default() {
        v1::HealthState::HealthOk => Health::Ok,
        v1::HealthState::HealthDegraded => Health::Degraded(reason),
        v1::HealthState::HealthFaulty => Health::Faulty(reason),
        v1::HealthState::HealthUnknown => Health::Unknown,
    })
}

// === impl PciAddress ===

impl From<PciAddress> for v1::PciAddress {
    fn from(pci: PciAddress) -> Self {
        let PciAddress { domain, bus, slot, function } = pci;
        Self { domain, bus: bus.into(), slot: slot.into(), function: function.into() }
    }
}

impl TryFrom<v1::PciAddress> for PciAddress {
    type Error = Invalid;

    fn try_from(wire: v1::PciAddress) -> Result<Self, Invalid> {
        Ok(Self {
            domain: wire.domain,
            bus: small("pci.bus", wire.bus, 255)?,
            slot: small("pci.slot", wire.slot, 31)?,
            function: small("pci.function", wire.function, 7)?,
        })
    }
}

// === impl Device ===

impl From<&Device> for v1::Device {
    fn from(device: &Device) -> Self {
        let (health, health_reason) = health_parts(&device.health);
        let neighbour = |Neighbour { switch, port }| v1::Neighbour { switch, port };
        let fabric = |Fabric { cluster_uuid, clique_id }| v1::Fabric { cluster_uuid, clique_id };
        let mig = |Mig { uuid, profile }| v1::Mig { uuid, profile };
        Self {
            vendor: vendor_number(device.vendor),
            id: device.id,
            chip: chip_number(device.chip),
            model: device.model.clone(),
            path: device.path.clone(),
            health,
            health_reason,
            logic_id: device.logic_id,
            card: device.card.map(|(card, chip)| v1::Card { card, chip }),
            uuid: device.uuid.clone(),
            minor: device.minor,
            driver_index: device.driver_index,
            pci: device.pci.map(v1::PciAddress::from),
            numa: device.numa,
            cpus: device.cpus.clone(),
            ip: device.ip.map(ip_bytes),
            vnic_ip: device.vnic_ip.map(ip_bytes),
            port: port_number(device.port),
            neighbour: device.neighbour.clone().map(neighbour),
            super_device_id: device.super_device_id,
            island: device.island,
            fabric: device.fabric.clone().map(fabric),
            nic: device.nic.clone(),
            mig: device.mig.iter().cloned().map(mig).collect(),
        }
    }
}

impl TryFrom<v1::Device> for Device {
    type Error = Invalid;

    fn try_from(wire: v1::Device) -> Result<Self, Invalid> {
        let neighbour = |wire: v1::Neighbour| {
            Ok(Neighbour {
                switch: text("neighbour.switch", wire.switch)?,
                port: text("neighbour.port", wire.port)?,
            })
        };
        let fabric = |wire: v1::Fabric| {
            Ok(Fabric {
                cluster_uuid: text("fabric.cluster_uuid", wire.cluster_uuid)?,
                clique_id: wire.clique_id,
            })
        };
        let mig = |wire: v1::Mig| {
            Ok(Mig { uuid: text("uuid", wire.uuid)?, profile: text("profile", wire.profile)? })
        };
        Ok(Self {
            vendor: vendor("vendor", wire.vendor)?,
            id: wire.id,
            chip: chip(wire.chip),
            model: text("model", wire.model)?,
            path: text("path", wire.path)?,
            health: health(wire.health, wire.health_reason)?,
            logic_id: wire.logic_id,
            card: wire.card.map(|v1::Card { card, chip }| (card, chip)),
            uuid: maybe("uuid", wire.uuid)?,
            minor: wire.minor,
            driver_index: wire.driver_index,
            pci: wire.pci.map(PciAddress::try_from).transpose()?,
            numa: wire.numa,
            cpus: maybe("cpus", wire.cpus)?,
            ip: wire.ip.map(|bytes| ip("ip", &bytes)).transpose()?,
            vnic_ip: wire.vnic_ip.map(|bytes| ip("vnic_ip", &bytes)).transpose()?,
            port: port(wire.port),
            neighbour: wire.neighbour.map(neighbour).transpose()?,
            super_device_id: wire.super_device_id,
            island: wire.island,
            fabric: wire.fabric.map(fabric).transpose()?,
            nic: maybe("nic", wire.nic)?,
            mig: list("mig", wire.mig, MOST_PARTS, mig)?,
        })
    }
}

// === impl Nic ===

impl From<&Nic> for v1::Nic {
    fn from(nic: &Nic) -> Self {
        Self {
            name: nic.name.clone(),
            port: nic.port,
            pci: nic.pci.map(v1::PciAddress::from),
            numa: nic.numa,
            netdev: nic.netdev.clone(),
            state: port_number(nic.state),
            link_layer: nic.link_layer.clone(),
            rate: nic.rate,
            gid: nic.gid.clone().map(|(index, gid)| v1::Gid { index, gid }),
            ip: nic.ip.map(ip_bytes),
        }
    }
}

impl TryFrom<v1::Nic> for Nic {
    type Error = Invalid;

    fn try_from(wire: v1::Nic) -> Result<Self, Invalid> {
        let gid = |v1::Gid { index, gid }| Ok((index, text("gid", gid)?));
        Ok(Self {
            name: text("name", wire.name)?,
            port: wire.port,
            pci: wire.pci.map(PciAddress::try_from).transpose()?,
            numa: wire.numa,
            netdev: maybe("netdev", wire.netdev)?,
            state: port(wire.state),
            link_layer: text("link_layer", wire.link_layer)?,
            rate: wire.rate,
            gid: wire.gid.map(gid).transpose()?,
            ip: wire.ip.map(|bytes| ip("ip", &bytes)).transpose()?,
        })
    }
}

// === impl Link ===

fn end_parts(end: End) -> (i32, u32) {
    let (kind, number) = match end {
        End::Npu(id) => (v1::EndKind::EndNpu, id),
        End::Gpu(id) => (v1::EndKind::EndGpu, id),
        End::Nic(at) => (v1::EndKind::EndNic, at),
    };
    (kind.into(), number)
}

fn end(field: &str, kind: i32, number: u32) -> Result<End, Invalid> {
    match v1::EndKind::try_from(kind) {
        Ok(v1::EndKind::EndNpu) => Ok(End::Npu(number)),
        Ok(v1::EndKind::EndGpu) => Ok(End::Gpu(number)),
        Ok(v1::EndKind::EndNic) => Ok(End::Nic(number)),
        _ => Err(Invalid::new(field, format!("is {kind}, which is no kind of end"))),
    }
}

impl From<&Link> for v1::Join {
    fn from(link: &Link) -> Self {
        let ((a_kind, a), (b_kind, b)) = (end_parts(link.a), end_parts(link.b));
        let (kind, count) = match link.join {
            Join::Sio => (v1::JoinKind::JoinSio, 0),
            Join::Hccs => (v1::JoinKind::JoinHccs, 0),
            Join::HccsSwitch => (v1::JoinKind::JoinHccsSwitch, 0),
            Join::NvLink(count) => (v1::JoinKind::JoinNvlink, count.into()),
            Join::Pix => (v1::JoinKind::JoinPix, 0),
            Join::Pxb => (v1::JoinKind::JoinPxb, 0),
            Join::Phb => (v1::JoinKind::JoinPhb, 0),
            Join::Node => (v1::JoinKind::JoinNode, 0),
            Join::Sys => (v1::JoinKind::JoinSys, 0),
            Join::Na => (v1::JoinKind::JoinUnknown, 0),
        };
        Self { a_kind, a, b_kind, b, kind: kind.into(), count }
    }
}

impl TryFrom<v1::Join> for Link {
    type Error = Invalid;

    fn try_from(wire: v1::Join) -> Result<Self, Invalid> {
        let join = match v1::JoinKind::try_from(wire.kind).unwrap_or_default() {
            v1::JoinKind::JoinSio => Join::Sio,
            v1::JoinKind::JoinHccs => Join::Hccs,
            v1::JoinKind::JoinHccsSwitch => Join::HccsSwitch,
            v1::JoinKind::JoinNvlink => Join::NvLink(small("count", wire.count, u8::MAX)?),
            v1::JoinKind::JoinPix => Join::Pix,
            v1::JoinKind::JoinPxb => Join::Pxb,
            v1::JoinKind::JoinPhb => Join::Phb,
            v1::JoinKind::JoinNode => Join::Node,
            v1::JoinKind::JoinSys => Join::Sys,
            v1::JoinKind::JoinUnknown => Join::Na,
        };
        let (a, b) = (end("a_kind", wire.a_kind, wire.a)?, end("b_kind", wire.b_kind, wire.b)?);
        Ok(Self { a, b, join })
    }
}

// === impl Inventory ===

impl From<&Inventory> for v1::Inventory {
    fn from(inventory: &Inventory) -> Self {
        let driver = |driver: &Driver| v1::Driver {
            vendor: vendor_number(driver.vendor),
            version: driver.version.clone(),
        };
        let address = |address: &HostAddress| v1::HostAddress {
            interface: address.interface.clone(),
            ip: ip_bytes(address.ip),
        };
        let super_pod =
            |SuperPod { id, server_index, size }| v1::SuperPod { id, server_index, size };
        Self {
            settled: inventory.settled,
            drivers: inventory.drivers.iter().map(driver).collect(),
            devices: inventory.devices.iter().map(v1::Device::from).collect(),
            nics: inventory.nics.iter().map(v1::Nic::from).collect(),
            links: inventory.links.iter().map(v1::Join::from).collect(),
            super_pod: inventory.super_pod.map(super_pod),
            addresses: inventory.addresses.iter().map(address).collect(),
            server_id: inventory.server_id.clone(),
        }
    }
}

impl TryFrom<v1::Inventory> for Inventory {
    type Error = Invalid;

    fn try_from(wire: v1::Inventory) -> Result<Self, Invalid> {
        let driver = |wire: v1::Driver| {
            Ok(Driver {
                vendor: vendor("vendor", wire.vendor)?,
                version: text("version", wire.version)?,
            })
        };
        let address = |wire: v1::HostAddress| {
            Ok(HostAddress {
                interface: text("interface", wire.interface)?,
                ip: ip("ip", &wire.ip)?,
            })
        };
        let super_pod =
            |v1::SuperPod { id, server_index, size }| SuperPod { id, server_index, size };
        Ok(Self {
            settled: wire.settled,
            drivers: list("drivers", wire.drivers, MOST_PARTS, driver)?,
            devices: list("devices", wire.devices, MOST_DEVICES, Device::try_from)?,
            nics: list("nics", wire.nics, MOST_NICS, Nic::try_from)?,
            links: list("links", wire.links, MOST_LINKS, Link::try_from)?,
            super_pod: wire.super_pod.map(super_pod),
            addresses: list("addresses", wire.addresses, MOST_ADDRESSES, address)?,
            server_id: maybe("server_id", wire.server_id)?,
        })
    }
}
