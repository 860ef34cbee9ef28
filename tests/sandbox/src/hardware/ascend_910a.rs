//! Eight Ascend 910A in one server: two rings of four, a 100G port each.

use std::fmt::Write;
use std::io;

use super::Device;
use super::ascend_910b::{INSTALL_INFO, chips_on_the_bus, cpus, decoys, driver};
use super::ascend_tools::{
    Chip, Layout, Port, hccn_tool, listing, mapping, npu_smi, table, topology,
};
use super::tools::branch;
use super::tree::Tree;

/// Bus and NUMA node by physical id.
const CHIPS: [(&str, i64); 8] =
    [("c1", 6), ("81", 4), ("41", 2), ("01", 0), ("c2", 6), ("82", 4), ("42", 2), ("02", 0)];
const VERSION: &str = "25.2.0";

pub(super) fn devices() -> Vec<Device> {
    let chips = CHIPS.iter().enumerate();
    chips.map(|(phy, (_, numa))| Device::ascend("Ascend910", phy, Some(*numa))).collect()
}

pub(super) fn labels() -> Vec<(&'static str, String)> {
    [
        ("accelerator", "huawei-Ascend910"),
        ("accelerator-type", "module"),
        ("servertype", "Ascend910-32"),
        ("node.kubernetes.io/npu.chip.name", "910A"),
        ("mind-cluster/npu-chip-memory", "32G"),
        ("huawei.com/driver.version", VERSION),
        ("host-arch", "huawei-arm"),
        ("workerselector", "dls-worker-node"),
        ("nodeDEnable", "on"),
    ]
    .map(|(key, value)| (key, value.to_owned()))
    .to_vec()
}

pub(super) fn lay_out(tree: &Tree, index: u32) -> io::Result<()> {
    driver(tree, CHIPS.len(), VERSION)?;
    tree.file("etc/ascend_install.info", INSTALL_INFO)?;
    let ports = ports(index);
    let mut conf = String::new();
    for Port { id, address, netmask, .. } in &ports {
        // Writing into a String cannot fail.
        let _written = write!(conf, "address_{id}={address}\nnetmask_{id}={netmask}\n");
    }
    tree.file("etc/hccn.conf", &conf)?;
    chips_on_the_bus(tree, &CHIPS, "0xd801")?;
    decoys(tree)?;
    let chips = chips();
    let info = table(&layout(VERSION, [27, 15, 52]), &chips);
    let wide = table(&layout("26.0.0", [31, 19, 60]), &chips);
    // Two rings; whatever leaves one goes through the host.
    let joined = |a: usize, b: usize| if a / 4 == b / 4 { "HCCS" } else { "SYS" };
    let topo =
        topology(CHIPS.len(), joined, |n| CHIPS.get(n).map(|c| cpus(c.1)).unwrap_or_default());
    let more = [branch("\"info -t topo\"", &topo)];
    let smi = npu_smi(&info, Some(&wide), &listing(&chips), &mapping(&chips, false), &more);
    tree.tool("usr/local/sbin/npu-smi", &smi)?;
    tree.tool("usr/local/Ascend/driver/tools/hccn_tool", &hccn_tool(&ports))
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
            name: "910A",
            bdf: format!("0000:{bus}:00.0"),
            power: "68.4".into(),
            temp: 36,
            memory: "2654 / 15171".into(),
            hbm: Some("0    / 32768".into()),
        })
        .collect()
}

/// Chips i and i+4 share a network: four networks, the nodes side by side in each.
fn ports(index: u32) -> Vec<Port> {
    (0..CHIPS.len())
        .map(|id| {
            let (second, third) = (30 + index / 120, id % 4);
            let last = 2 + id / 4 + 2 * (index % 120) as usize;
            Port {
                id,
                address: format!("10.{second}.{third}.{last}"),
                netmask: "255.255.255.0",
                gateway: format!("10.{second}.{third}.1"),
                mac: format!("02:00:0a:{second:02x}:{third:02x}:{last:02x}"),
                speed: 100_000,
                up: true,
                vnic: None,
            }
        })
        .collect()
}
