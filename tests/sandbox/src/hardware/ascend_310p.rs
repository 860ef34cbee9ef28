//! Four cards of two Ascend 310P each: chips without ports.

use std::io;

use super::Device;
use super::ascend_910b::{cpus, driver};
use super::ascend_tools::{Chip, Layout, listing, mapping, npu_smi, table};
use super::tools::script;
use super::tree::{Function, Tree};

/// NPU id (it follows the slot), bus and NUMA node of each card; two do not know theirs.
const CARDS: [(usize, &str, i64); 4] = [(1, "01", 0), (2, "02", 0), (4, "81", -1), (5, "82", -1)];

pub(super) fn devices() -> Vec<Device> {
    let cards = CARDS.iter().enumerate();
    cards
        .flat_map(|(place, (_, _, numa))| {
            let numa = (*numa >= 0).then_some(*numa);
            [2 * place, 2 * place + 1].map(|n| Device::ascend("Ascend310P", n, numa))
        })
        .collect()
}

pub(super) fn labels() -> Vec<(&'static str, String)> {
    [
        ("accelerator", "huawei-Ascend310P"),
        ("servertype", "Ascend310P-8"),
        ("infer-card-type", "card-300i-duo"),
        ("node.kubernetes.io/npu.chip.name", "310P3"),
        ("huawei.com/driver.version", "25.2.0"),
        ("host-arch", "huawei-arm"),
        ("workerselector", "dls-worker-node"),
    ]
    .map(|(key, value)| (key, value.to_owned()))
    .to_vec()
}

pub(super) fn lay_out(tree: &Tree) -> io::Result<()> {
    driver(tree, 2 * CARDS.len(), "25.2.0")?;
    // A part of a chip, which is no chip.
    tree.device("dev/vdavinci100")?;
    for (_, bus, numa) in CARDS {
        let root = format!("{}0", &bus[..1]);
        let bridge = if bus.ends_with('1') { "00" } else { "01" };
        let cpus = if numa < 0 { "0-95".to_owned() } else { cpus(numa) };
        let path = format!("pci0000:{root}/0000:{root}:{bridge}.0/0000:{bus}:00.0");
        tree.pci(&Function {
            path: &path,
            vendor: "0x19e5",
            device: "0xd500",
            class: "0x120000",
            revision: "0x23",
            numa,
            cpus: &cpus,
        })?;
    }
    let chips = chips();
    let layout = Layout {
        version: "25.2.0",
        widths: [27, 17, 54],
        usage: 13,
        phy: true,
        second_head: ["Chip    Device", "Bus-Id", "AICore(%)    Memory-Usage(MB)"],
    };
    let smi =
        npu_smi(&table(&layout, &chips), None, &listing(&chips), &mapping(&chips, false), &[]);
    tree.tool("usr/local/sbin/npu-smi", &smi)?;
    let failing = "echo \"hccn_tool: device $id has no port\" >&2\nexit 1\n";
    tree.tool("usr/local/Ascend/driver/tools/hccn_tool", &script("hccn_tool", failing))
}

fn chips() -> Vec<Chip> {
    let cards = CARDS.iter().enumerate();
    cards
        .flat_map(|(place, (npu, bus, _))| {
            [0, 1].map(|chip| Chip {
                npu: *npu,
                chip,
                phy: 2 * place + chip,
                name: "310P3",
                // Both chips of a card show the card's.
                bdf: format!("0000:{bus}:00.0"),
                power: "NA".into(),
                temp: if chip == 0 { 45 } else { 44 },
                memory: if chip == 0 { "1433 / 44280".into() } else { "1271 / 43693".into() },
                hbm: None,
            })
        })
        .collect()
}
