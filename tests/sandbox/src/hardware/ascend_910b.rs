//! Eight Ascend 910B3 in one server, a 200G port each.

use std::fmt::Write;
use std::io;

use super::ascend_tools::{
    Chip, Layout, Port, hccn_tool, listing, mapping, npu_smi, table, topology,
};
use super::tools::branch;
use super::tree::{Function, Tree};
use super::{Device, Quirks};

/// Bus and NUMA node by physical id: not in order, as on real hosts.
const CHIPS: [(&str, i64); 8] =
    [("c1", 6), ("c2", 6), ("81", 4), ("82", 4), ("01", 0), ("02", 0), ("41", 2), ("42", 2)];
/// The device whose port is down.
const DOWN: usize = 3;

pub(super) const INSTALL_INFO: &str = "UserName=HwHiAiUser\nUserGroup=HwHiAiUser\n\
    Driver_Install_Type=full\nDriver_Install_Path_Param=/usr/local/Ascend\nDriver_Install_For_All=no\n";

pub(super) fn devices() -> Vec<Device> {
    let chips = CHIPS.iter().enumerate();
    chips.map(|(phy, (_, numa))| Device::ascend("Ascend910", phy, Some(*numa))).collect()
}

pub(super) fn labels() -> Vec<(&'static str, String)> {
    [
        ("accelerator", "huawei-Ascend910"),
        ("accelerator-type", "module-910b-8"),
        ("servertype", "Ascend910B-20"),
        ("node.kubernetes.io/npu.chip.name", "910B3"),
        ("mind-cluster/npu-chip-memory", "64G"),
        ("huawei.com/driver.version", "25.2.0"),
        ("host-arch", "huawei-arm"),
        ("workerselector", "dls-worker-node"),
        ("nodeDEnable", "on"),
    ]
    .map(|(key, value)| (key, value.to_owned()))
    .to_vec()
}

/// 10.20.0.0/24 on the first node, the next network on the next.
fn network(index: u32) -> String {
    format!("10.{}.{}", 20 + index / 256, index % 256)
}

/// The 24 cores of a NUMA node.
pub(super) fn cpus(numa: i64) -> String {
    format!("{}-{}", numa * 24, numa * 24 + 23)
}

/// Version, installation and the device files that every Ascend node has.
pub(super) fn driver(tree: &Tree, devices: usize, version: &str) -> io::Result<()> {
    for n in 0..devices {
        tree.device(&format!("dev/davinci{n}"))?;
    }
    for name in ["davinci_manager", "devmm_svm", "hisi_hdc"] {
        tree.device(&format!("dev/{name}"))?;
    }
    let info = format!("Version={version}\nascendhal_version=7.35.23\npackage_version={version}\n");
    tree.file("usr/local/Ascend/driver/version.info", &info)
}

/// Functions of the same vendor that are no NPUs.
pub(super) fn decoys(tree: &Tree) -> io::Result<()> {
    for (path, device, class) in [
        ("pci0000:74/0000:74:00.0/0000:75:00.0", "0xa250", "0x120000"),
        ("pci0000:7c/0000:7c:00.0/0000:7d:00.0", "0xa222", "0x020000"),
    ] {
        let vendor = "0x19e5";
        let cpus = cpus(0);
        let revision = "0x21";
        tree.pci(&Function { path, vendor, device, class, revision, numa: 0, cpus: &cpus })?;
    }
    Ok(())
}

/// Chips of one kind, two below each bridge.
pub(super) fn chips_on_the_bus(tree: &Tree, chips: &[(&str, i64)], device: &str) -> io::Result<()> {
    for (bus, numa) in chips {
        // c1 and c2 hang below c0, 81 and 82 below 80, and so on.
        let root = format!("{}0", &bus[..1]);
        let bridge = if bus.ends_with('1') { "00" } else { "01" };
        let path = format!("pci0000:{root}/0000:{root}:{bridge}.0/0000:{bus}:00.0");
        tree.pci(&Function {
            path: &path,
            vendor: "0x19e5",
            device,
            class: "0x120000",
            revision: "0x20",
            numa: *numa,
            cpus: &cpus(*numa),
        })?;
    }
    Ok(())
}

pub(super) fn lay_out(tree: &Tree, index: u32, quirks: Quirks) -> io::Result<()> {
    driver(tree, CHIPS.len(), "25.2.0")?;
    tree.device("dev/dvpp_cmdlist")?;
    tree.file("etc/ascend_install.info", INSTALL_INFO)?;
    tree.file("etc/hccn.conf", &hccn_conf(index, quirks.truncated_hccn))?;
    chips_on_the_bus(tree, &CHIPS, "0xd802")?;
    decoys(tree)?;
    let chips = chips();
    let info = table(&layout("25.2.0", [27, 15, 52]), &chips);
    let wide = table(&layout("26.0.0", [31, 19, 60]), &chips);
    let joined = |_, _| "HCCS";
    let topo =
        topology(CHIPS.len(), joined, |n| CHIPS.get(n).map(|c| cpus(c.1)).unwrap_or_default());
    let more = [branch("\"info -t topo\"", &topo)];
    let smi = npu_smi(&info, Some(&wide), &listing(&chips), &mapping(&chips, false), &more);
    tree.tool("usr/local/sbin/npu-smi", &smi)?;
    tree.tool("usr/local/Ascend/driver/tools/hccn_tool", &hccn_tool(&ports(index)))
}

fn layout(version: &'static str, widths: [usize; 3]) -> Layout {
    let head = "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)";
    Layout { version, widths, usage: 12, phy: false, second_head: ["Chip", "Bus-Id", head] }
}

fn chips() -> Vec<Chip> {
    let chips = CHIPS.iter().zip(0..);
    chips
        .map(|((bus, _), phy)| Chip {
            npu: phy,
            chip: 0,
            phy,
            name: "910B3",
            bdf: format!("0000:{bus}:00.0"),
            power: ["92.1", "93.0", "91.7", "90.9", "92.4", "93.3", "91.2", "92.8"][phy % 8].into(),
            temp: [40, 41, 40, 39, 42, 41, 40, 41][phy % 8],
            memory: "0    / 0".into(),
            hbm: Some("3371 / 65536".into()),
        })
        .collect()
}

fn ports(index: u32) -> Vec<Port> {
    let network = network(index);
    (0..CHIPS.len())
        .map(|id| Port {
            id,
            address: format!("{network}.{}", id + 2),
            netmask: "255.255.255.0",
            gateway: format!("{network}.1"),
            mac: format!("02:00:0a:{:02x}:{:02x}:{:02x}", 20 + index / 256, index % 256, id + 2),
            speed: 200_000,
            up: id != DOWN,
            vnic: None,
        })
        .collect()
}

fn hccn_conf(index: u32, truncated: bool) -> String {
    let mut text = String::new();
    for Port { id, address, netmask, gateway, .. } in ports(index) {
        // Writing into a String cannot fail.
        let _written = match id {
            0 => write!(
                text,
                "address_0={address}\nnetmask_0={netmask}\ngateway_0={gateway}\n\
                 netdetect_0={gateway}\nsend_arp_status_0=1\n"
            ),
            // Order is not to be relied on.
            1 => write!(text, "netmask_1={netmask}\naddress_1={address}\n"),
            7 if truncated => write!(text, "address_7={address}"),
            _ => write!(text, "address_{id}={address}\nnetmask_{id}={netmask}\n"),
        };
    }
    text
}
