//! `npu-smi` and `hccn_tool` as the Ascend profiles print them.

use std::fmt::Write;

use super::tools::{branch, case, script};

/// A chip as `npu-smi info` shows it.
pub(super) struct Chip {
    pub npu: usize,
    pub chip: usize,
    pub phy: usize,
    pub name: &'static str,
    pub bdf: String,
    pub power: String,
    pub temp: u32,
    pub memory: String,
    pub hbm: Option<String>,
}

/// How wide the cells of the table are, and what its second line of heads says.
pub(super) struct Layout {
    pub version: &'static str,
    pub widths: [usize; 3],
    /// How wide the first number of the usage cell is.
    pub usage: usize,
    /// Whether chips show their physical id.
    pub phy: bool,
    pub second_head: [&'static str; 3],
}

/// The ports of one device, as `hccn_tool` tells of them.
pub(super) struct Port {
    pub id: usize,
    pub address: String,
    pub netmask: &'static str,
    pub gateway: String,
    pub mac: String,
    pub speed: u32,
    pub up: bool,
    /// Address on the supernode's own network.
    pub vnic: Option<String>,
}

/// The table of `npu-smi info`.
pub(super) fn table(layout: &Layout, chips: &[Chip]) -> String {
    let [a, b, c] = layout.widths;
    let whole = a + b + c + 2;
    let usage = layout.usage;
    let rule = |fill: &str| format!("+{}+{}+{}+\n", fill.repeat(a), fill.repeat(b), fill.repeat(c));
    let line = format!("+{}+\n", "-".repeat(whole));
    let cells = |left: &str, middle: &str, right: &str| {
        let (left, middle, right) = (format!(" {left}"), format!(" {middle}"), format!(" {right}"));
        format!("|{left:<a$}|{middle:<b$}|{right:<c$}|\n")
    };
    // The first word of the left cell takes what the chip's column takes in the head.
    let first = layout.second_head[0].find("  ").map_or(6, |end| {
        layout.second_head[0][end..].find(|ch: char| ch != ' ').map_or(6, |more| end + more)
    });
    let first = first.max(6);
    let version = layout.version;
    let title = format!("npu-smi {version:<25}Version: {version}");
    let mut text = line.clone();
    let title = format!(" {title}");
    // Writing into a String cannot fail.
    let _written = writeln!(text, "|{title:<whole$}|");
    text.push_str(&rule("-"));
    let [chip_head, bus_head, usage_head] = layout.second_head;
    let power_head = format!("{:<usage$}Temp(C)           Hugepages-Usage(page)", "Power(W)");
    let name_head = format!("{:<first$}Name", "NPU");
    text.push_str(&cells(&name_head, "Health", &power_head));
    text.push_str(&cells(chip_head, bus_head, usage_head));
    text.push_str(&rule("="));
    for (place, chip) in chips.iter().enumerate() {
        let name = format!("{:<first$}{}", chip.npu, chip.name);
        let power = format!("{:<usage$}{:<18}0    / 0", chip.power, chip.temp);
        text.push_str(&cells(&name, "OK", &power));
        let number = match layout.phy {
            true => format!("{:<first$}{}", chip.chip, chip.phy),
            false => chip.chip.to_string(),
        };
        let memory = match &chip.hbm {
            Some(hbm) => format!("{:<usage$}{:<18}{hbm}", 0, chip.memory),
            None => format!("{:<usage$}{}", 0, chip.memory),
        };
        text.push_str(&cells(&number, &chip.bdf.to_uppercase(), &memory));
        let same_npu = chips.get(place + 1).is_some_and(|next| next.npu == chip.npu);
        text.push_str(&if same_npu { line.clone() } else { rule("=") });
    }
    text.push_str(&rule("-"));
    let process = "Process id";
    text.push_str(&cells("NPU     Chip", process, "Process name             | Process memory(MB)"));
    text.push_str(&rule("="));
    let mut npus: Vec<usize> = chips.iter().map(|chip| chip.npu).collect();
    npus.dedup();
    for npu in npus {
        let none = format!(" No running processes found in NPU {npu}");
        let _written = writeln!(text, "|{none:<whole$}|");
        text.push_str(&rule("="));
    }
    text
}

/// `npu-smi info -l`.
pub(super) fn listing(chips: &[Chip]) -> String {
    let mut npus: Vec<usize> = chips.iter().map(|chip| chip.npu).collect();
    npus.dedup();
    let mut text = format!("\t{:<31}: {}\n", "Total Count", npus.len());
    for npu in npus {
        let count = chips.iter().filter(|chip| chip.npu == npu).count();
        let _written =
            write!(text, "\n\t{:<31}: {npu}\n\t{:<31}: {count}\n", "NPU ID", "Chip Count");
    }
    text
}

/// `npu-smi info -m`; each NPU also has a controller that is no chip.
pub(super) fn mapping(chips: &[Chip], phy: bool) -> String {
    let cells = |cells: &[&str]| {
        let (end, all) = cells.split_last().unwrap_or((&"", &[]));
        let all: String = all.iter().map(|cell| format!("{cell:<31}")).collect();
        format!("\t{all}{end}\n")
    };
    let mut head = vec!["NPU ID", "Chip ID", "Chip Logic ID"];
    if phy {
        head.push("Chip Phy-ID");
    }
    head.push("Chip Name");
    let mut text = cells(&head);
    for (place, chip) in chips.iter().enumerate() {
        let (npu, number, logic) = (chip.npu.to_string(), chip.chip.to_string(), place.to_string());
        let id = chip.phy.to_string();
        let name = match chip.name.strip_prefix("Ascend") {
            Some(number) => format!("Ascend {number}"),
            None => format!("Ascend {}", chip.name),
        };
        let mut row = vec![npu.as_str(), &number, &logic];
        if phy {
            row.push(&id);
        }
        row.push(&name);
        text.push_str(&cells(&row));
        let last = chips.get(place + 1).is_none_or(|next| next.npu != chip.npu);
        if last {
            let controller = (chip.chip + 1).to_string();
            let mut row = vec![npu.as_str(), &controller, "-"];
            if phy {
                row.push("-");
            }
            row.push("Mcu");
            text.push_str(&cells(&row));
        }
    }
    text
}

/// `npu-smi info -t topo`: how each pair is joined, and each chip's cores.
pub(super) fn topology(
    count: usize,
    joined: impl Fn(usize, usize) -> &'static str,
    cpus: impl Fn(usize) -> String,
) -> String {
    let name = |n: usize| format!("NPU{n}");
    let head: String = (0..count).map(|n| format!("{:<11}", name(n))).collect();
    let mut text = format!("\t   {head}CPU Affinity\n");
    for row in 0..count {
        let cell = |column: usize| if row == column { "X" } else { joined(row, column) };
        let cells: String = (0..count).map(|column| format!("{:<11}", cell(column))).collect();
        let _written = writeln!(text, "{:<11}{cells}{}", name(row), cpus(row));
    }
    text.push_str(
        "\nLegend:\n  X    = self\n  HCCS = high-speed coherent link\n  HCCS_SW = the same through a switch\n  \
         SIO  = two dies of one NPU\n  PIX  = one PCIe switch\n  PHB  = PCIe host bridge\n  \
         SYS  = across NUMA nodes\n",
    );
    text
}

/// The `npu-smi` that prints these; `more` are further branches over all arguments.
pub(super) fn npu_smi(
    info: &str,
    wide: Option<&str>,
    listing: &str,
    mapping: &str,
    more: &[String],
) -> String {
    let mut branches = Vec::new();
    if let Some(wide) = wide {
        branches.push(branch("\"info 26\"", wide));
    }
    branches.push(branch("info|\"info 26\"", info));
    branches.push(branch("\"info -l\"", listing));
    branches.push(branch("\"info -m\"", mapping));
    branches.extend_from_slice(more);
    let start = "call=\"$*\"\nif [ \"$call\" = info ] && [ \"${FAKE_LAYOUT:-}\" = 26 ]; then call=\"info 26\"; fi\n";
    let otherwise = "echo \"npu-smi: this call is not supported\" >&2; exit 1";
    script("npu-smi", &format!("{start}{}", case("$call", &branches, otherwise)))
}

/// The `hccn_tool` of these ports. `FAKE_NOIP=<id>` takes the address of one away.
pub(super) fn hccn_tool(ports: &[Port]) -> String {
    let facts: Vec<String> = ports
        .iter()
        .map(|p| {
            let (link, health) = if p.up { ("UP", "Success") } else { ("DOWN", "Init") };
            let vnic = p.vnic.as_deref().unwrap_or("");
            format!(
                "{}) ip={} mask={} gateway={} mac={} speed={} link={link} health={health} vnic={vnic} ;;\n",
                p.id, p.address, p.netmask, p.gateway, p.mac, p.speed
            )
        })
        .collect();
    let unknown = "echo \"hccn_tool: no device $id\" >&2; exit 1";
    let lldp = "printf 'Chassis ID TLV\\n        MAC: 02:aa:bb:cc:00:01\\nPort ID TLV\\n        \
                Ifname: 400GE1/1/%s:1\\nSystem Name TLV\\n        leaf-07\\nManagement Address TLV\\n        \
                IPv4: 10.99.0.7\\nMaximum Frame Size TLV\\n        9216\\nEnd of LLDPDU TLV\\n' $((20 + id))";
    let vnic = "if [ -z \"$vnic\" ]; then echo 'hccn_tool: no vnic' >&2; exit 1; fi\n\
                echo \"ipaddr:$vnic\"; echo 'netmask:255.255.0.0'";
    let topics = [
        (
            "-ip",
            "if [ \"${FAKE_NOIP:-}\" = \"$id\" ]; then exit 0; fi\necho \"ipaddr:$ip\"; echo \"netmask:$mask\"",
        ),
        ("-vnic", vnic),
        ("-link", "echo \"link status: $link\""),
        ("-net_health", "echo \"net health status: $health\""),
        ("-speed", "echo \"Speed: $speed Mb/s\""),
        ("-gateway", "echo \"default gateway:$gateway, Iface:eth$id\""),
        ("-mac", "echo \"mac addr: $mac\""),
        ("-lldp", lldp),
        (
            "-link_stat",
            "echo '[devid '\"$id\"'] link up count: 1'; echo '[devid '\"$id\"'] link down count: 0'",
        ),
        (
            "-stat",
            "echo 'packet statistics:'; echo 'mac_tx_total_pkt_num:0'; echo 'mac_rx_total_pkt_num:0'",
        ),
    ];
    let topics: Vec<String> =
        topics.iter().map(|(topic, body)| format!("{topic})\n{body}\n;;\n")).collect();
    let other = "echo \"hccn_tool: unknown topic $3\" >&2; exit 1";
    let shape = "if [ \"${1:-}\" != -i ] || [ \"${4:-}\" != -g ]; then echo 'usage: hccn_tool -i <id> <topic> -g' >&2; exit 1; fi\n";
    let body = format!("{shape}{}{}", case("$id", &facts, unknown), case("$3", &topics, other));
    script("hccn_tool", &body)
}
