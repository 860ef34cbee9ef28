//! A server of an A3 supernode: eight NPUs of two dies each.

use std::fmt::Write;
use std::io;

use super::Device;
use super::ascend_910b::{INSTALL_INFO, cpus, driver};
use super::ascend_tools::{
    Chip, Layout, Port, hccn_tool, listing, mapping, npu_smi, table, topology,
};

use super::tree::{Function, Tree};

const DIES: usize = 16;
/// Servers of one supernode: 384 NPUs, eight each.
const SERVERS: u32 = 48;
/// The first simulated node is this server.
const FIRST_SERVER: u32 = 40;
const VERSION: &str = "25.3.rc1";

/// The place of a node: its supernode and its server in it.
fn place(index: u32) -> (u32, u32) {
    ((FIRST_SERVER + index) / SERVERS, (FIRST_SERVER + index) % SERVERS)
}

fn numa(phy: usize) -> i64 {
    [0, 0, 2, 2, 4, 4, 6, 6][(phy / 2) % 8]
}

/// The bus of a die: 9d and 9f for the first NPU, 99 and 9b for the next, down to 81 and 83.
fn bus(phy: usize) -> usize {
    0x9d - 4 * (phy / 2) + 2 * (phy % 2)
}

/// What names a die in its supernode: server, NPU, die and physical id in one number.
pub(super) fn sdid(server: u32, phy: usize) -> u32 {
    let phy = phy as u32;
    server << 22 | (phy / 2) << 18 | (phy % 2) << 16 | phy
}

pub(super) fn devices() -> Vec<Device> {
    (0..DIES).map(|phy| Device::ascend("Ascend910", phy, Some(numa(phy)))).collect()
}

pub(super) fn labels(index: u32) -> Vec<(&'static str, String)> {
    let (supernode, server) = place(index);
    vec![
        ("accelerator", "huawei-Ascend910".into()),
        ("accelerator-type", "module-a3-16-super-pod".into()),
        ("servertype", "Ascend910-20".into()),
        ("node.kubernetes.io/npu.chip.name", "Ascend910".into()),
        ("mind-cluster/npu-chip-memory", "64G".into()),
        ("huawei.com/driver.version", VERSION.into()),
        ("huawei.com/topotree.superpodid", supernode.to_string()),
        ("huawei.com/topotree.serverid", server.to_string()),
        ("host-arch", "huawei-arm".into()),
        ("workerselector", "dls-worker-node".into()),
        ("nodeDEnable", "on".into()),
    ]
}

pub(super) fn lay_out(tree: &Tree, index: u32) -> io::Result<()> {
    driver(tree, DIES, VERSION)?;
    tree.file("etc/ascend_install.info", INSTALL_INFO)?;
    let ports = ports(index);
    let mut conf = String::new();
    for Port { id, address, netmask, .. } in &ports {
        // Writing into a String cannot fail.
        let _written = write!(conf, "address_{id}={address}\nnetmask_{id}={netmask}\n");
    }
    tree.file("etc/hccn.conf", &conf)?;
    for phy in 0..DIES {
        let bus = bus(phy);
        let path = format!("pci0000:80/0000:80:{:02x}.0/0000:{bus:02x}:00.0", phy + 1);
        tree.pci(&Function {
            path: &path,
            vendor: "0x19e5",
            device: "0xd803",
            class: "0x120000",
            revision: "0x20",
            numa: numa(phy),
            cpus: &cpus(numa(phy)),
        })?;
    }
    tree.tool("usr/local/sbin/npu-smi", &smi(index))?;
    tree.tool("usr/local/Ascend/driver/tools/hccn_tool", &hccn_tool(&ports))
}

fn smi(index: u32) -> String {
    let chips = chips();
    let info = table(&layout(VERSION, [27, 15, 52]), &chips);
    let wide = table(&layout("26.0.0", [31, 19, 60]), &chips);
    let across = |token: &'static str| {
        let joined = move |a: usize, b: usize| if a / 2 == b / 2 { "SIO" } else { token };
        topology(DIES, joined, |_| "0-191".into())
    };
    // Older tools do not tell the switch: FAKE_TOPO=old.
    let topo = format!(
        "\"info -t topo\")\nif [ \"${{FAKE_TOPO:-}}\" = old ]; then\ncat <<'END'\n{}END\nelse\ncat <<'END'\n{}END\nfi\n;;\n",
        across("HCCS"),
        across("HCCS_SW")
    );
    let (supernode, server) = place(index);
    let mut more = vec![topo];
    for phy in 0..DIES {
        let (npu, die) = (phy / 2, phy % 2);
        let facts = [
            ("SDID", sdid(server, phy)),
            ("Super Pod Size", 384),
            ("Super Pod ID", supernode),
            ("Server Index", server),
        ];
        let facts: String =
            facts.iter().map(|(name, value)| format!("\t{name:<31}: {value}\n")).collect();
        let alone = facts.replace(
            &format!("{:<31}: {supernode}", "Super Pod ID"),
            &format!("{:<31}: 4294967295", "Super Pod ID"),
        );
        // FAKE_SPOD=none: in no supernode; FAKE_SPOD=unsupported: the call fails.
        more.push(format!(
            "\"info -t spod-info -i {npu} -c {die}\")\ncase \"${{FAKE_SPOD:-}}\" in\n\
             none) cat <<'END'\n{alone}END\n;;\n\
             unsupported) echo 'This device does not support querying spod-info.' >&2; exit 1 ;;\n\
             *) cat <<'END'\n{facts}END\n;;\nesac\n;;\n"
        ));
    }
    npu_smi(&info, Some(&wide), &listing(&chips), &mapping(&chips, true), &more)
}

fn layout(version: &'static str, widths: [usize; 3]) -> Layout {
    let head = "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)";
    Layout { version, widths, usage: 12, phy: true, second_head: ["Chip  Phy-ID", "Bus-Id", head] }
}

fn chips() -> Vec<Chip> {
    (0..DIES)
        .map(|phy| Chip {
            npu: phy / 2,
            chip: phy % 2,
            phy,
            name: "Ascend910",
            bdf: format!("0000:{:02x}:00.0", bus(phy)),
            // Power is measured once per NPU.
            power: if phy % 2 == 0 { "165.0".into() } else { "-".into() },
            temp: 34,
            memory: "0    / 0".into(),
            hbm: Some(format!("{} / 65536", if phy % 2 == 0 { 3150 } else { 2890 })),
        })
        .collect()
}

/// The dies of an NPU are on two networks, the servers side by side in each.
fn ports(index: u32) -> Vec<Port> {
    let (supernode, server) = place(index);
    let block = if index < 30 { 0 } else { 100 + index / 30 };
    (0..DIES)
        .map(|id| {
            let third = 245 - id % 2;
            let last = 11 + id / 2 + 8 * (index % 30) as usize;
            Port {
                id,
                address: format!("10.{block}.{third}.{last}"),
                netmask: "255.255.255.0",
                gateway: format!("10.{block}.{third}.1"),
                mac: format!("02:00:0a:{block:02x}:{third:02x}:{last:02x}"),
                speed: 200_000,
                up: true,
                vnic: Some(format!("192.{}.{server}.{}", 168 + supernode, id + 1)),
            }
        })
        .collect()
}
