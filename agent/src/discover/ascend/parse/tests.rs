use muster_proto::device::{Health, Join, Neighbour, PortState};
use proptest::prelude::*;

use super::*;

const A3: &str = "\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.3.rc1                 Version: 25.3.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 165.0       34                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3150 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | Critical      | -           34                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 0           0    / 0          2890 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4711          | python                   | 1024                    |
+===========================+===============+====================================================+
";

const DUO: &str = "\
| NPU     Name              | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device            | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
| 1       310P3             | UNKNOWN         | NA           45                0     / 0             |
| 0       0                 | 0000:01:00.0    | 0            1433 / 44280                            |
| 1       310P3             | Warning         | NA           44                0     / 0             |
| 1       1                 | NA              | 0            1271 / 43693                            |
";

const MAPPING: &str = "\
\tNPU ID                         Chip ID                        Chip Logic ID                  Chip Phy-ID                    Chip Name
\t0                              0                              0                              4                              Ascend 910
\t0                              1                              -                              -                              Mcu
";

const TOPO: &str = "\
\t   NPU0       NPU1       NPU2       CPU Affinity
NPU0       X          HCCS       NA         144-167
NPU1       HCCS       X          SYS        144-167,200
NPU2       PHB        SYS        X          none

Legend:
  X    = self
  HCCS = high-speed coherent link
";

const SPOD: &str = "\
\tSDID                           : 169148427
\tSuper Pod Size                 : 384
\tSuper Pod ID                   : 4294967295
\tServer Index                   : 0x28
";

const LLDP: &str = "\
Chassis ID TLV
        MAC: 02:aa:bb:cc:00:01
Port ID TLV
        Ifname: 400GE1/1/20:1
System Name TLV
        leaf-07
End of LLDPDU TLV
";

const CONF: &str = "\
# written by hand
netmask_1=255.255.255.0
address_1 = 10.20.0.3
address_0=10.20.0.2
address_2=0.0.0.0
address_3=nonsense
address_4096=10.20.0.9
address_x=10.20.0.9
ipv6address_5=fd00::5
address_7=fd00::7";

const SAMPLES: [&str; 7] = [A3, DUO, MAPPING, TOPO, SPOD, LLDP, CONF];

#[test]
fn a_table_is_read_by_its_heads() {
    let rows = info::info(A3).unwrap();
    let row = |chip, health: Health, pci: &str| info::Row {
        npu: 0,
        chip,
        phy: Some(chip),
        name: "Ascend910".into(),
        health,
        pci: Some(pci.parse().unwrap()),
    };
    let faulty = Health::Faulty("Critical".into());
    assert_eq!(rows, [row(0, Health::Ok, "0000:9d:00.0"), row(1, faulty, "0000:9f:00.0")]);
    // No widths, no rules, and noise between: the same.
    let squeezed: String = A3
        .lines()
        .filter(|line| !line.starts_with('+'))
        .map(|line| {
            format!("{}\u{1b}\u{7}\n\n", line.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    assert_eq!(info::info(&squeezed).unwrap(), rows);
}

#[test]
fn a_column_that_is_no_physical_id_is_not_taken_for_one() {
    let rows = info::info(DUO).unwrap();
    let facts: Vec<_> = rows.iter().map(|r| (r.npu, r.chip, r.phy, r.health.clone())).collect();
    let warning = Health::Degraded("Warning".into());
    assert_eq!(facts, [(1, 0, None, Health::Unknown), (1, 1, None, warning)]);
    assert_eq!((rows[0].pci.is_some(), rows[1].pci), (true, None));
}

#[test]
fn a_text_that_is_no_table_has_no_chips() {
    for text in ["", "no device\n", TOPO, "| NPU Name | Health |\n", "| Chip | Bus-Id |\n"] {
        assert_eq!(info::info(text), None, "{text}");
    }
    assert_eq!(mapping::mapping(TOPO), None);
    assert_eq!(topo::topo(MAPPING), None);
    assert_eq!(spod::spod("This device does not support querying spod-info."), None);
}

#[test]
fn numbers_leave_controllers_out_and_follow_heads() {
    let numbers = |logic, phy| mapping::Numbers { npu: 0, chip: 0, logic, phy };
    assert_eq!(mapping::mapping(MAPPING).unwrap(), [numbers(Some(0), Some(4))]);
    let turned = "Chip Phy-ID  NPU ID  Chip ID  Chip Name\n 9 0 0 Ascend 910\n";
    assert_eq!(mapping::mapping(turned).unwrap(), [numbers(None, Some(9))]);
    let list =
        "\tTotal Count : 2\n\n\tNPU ID   : 1\n\tChip Count : 2\n\tNPU ID : 4\n\tChip Count : 1\n";
    assert_eq!(mapping::listing(list), [(1, 2), (4, 1)]);
}

#[test]
fn a_matrix_has_pairs_and_cores() {
    let topo = topo::topo(TOPO).unwrap();
    assert_eq!(topo.numbers, [0, 1, 2]);
    let joins: Vec<_> = topo.joins.into_iter().collect();
    // What the upper half does not know, the lower may.
    assert_eq!(joins, [((0, 1), Join::Hccs), ((0, 2), Join::Phb), ((1, 2), Join::Sys)]);
    let cpus: Vec<_> = topo.cpus.into_iter().collect();
    assert_eq!(cpus, [(0, "144-167".to_owned()), (1, "144-167,200".to_owned())]);
    let alone = topo::topo("\tPhy-ID3 CPU Affinity\nPhy-ID3 X 0-23\n").unwrap();
    assert_eq!((alone.numbers, alone.joins.len(), alone.cpus.len()), (vec![3], 0, 1));
}

#[test]
fn all_ones_are_none() {
    let spod = spod::spod(SPOD).unwrap();
    let expected =
        spod::Spod { sdid: Some(169_148_427), size: Some(384), id: None, server: Some(40) };
    assert_eq!(spod, expected);
}

#[test]
fn configured_addresses_are_those_that_a_peer_could_use() {
    let conf: Vec<_> = conf::conf(CONF).addresses.into_iter().collect();
    let ip = |text: &str| Some(text.parse().unwrap());
    assert_eq!(
        conf,
        [(0, ip("10.20.0.2")), (1, ip("10.20.0.3")), (2, None), (3, None), (7, ip("fd00::7"))]
    );
    for none in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "ff02::1", ""]
    {
        assert_eq!(address(none), None, "{none}");
    }
}

#[test]
fn ports_answer_or_do_not() {
    let some = |text: &str| Some(Some(text.parse().unwrap()));
    for (text, expected) in [
        ("ipaddr:10.20.0.2\nnetmask:255.255.255.0\n", some("10.20.0.2")),
        ("IPADDR : fd00::7\r\n", some("fd00::7")),
        ("ipaddr:0.0.0.0\n", Some(None)),
        ("ipaddr:\n", Some(None)),
        (" \n", Some(None)),
        ("Cmd os error!!!\n", None),
    ] {
        assert_eq!(hccn::ip(text), expected, "{text}");
    }
    assert_eq!(hccn::link("link status: UP\n"), Some(PortState::Up));
    assert_eq!(hccn::link("link status: DOWN"), Some(PortState::Down));
    assert_eq!(hccn::link("link status: half"), Some(PortState::Unknown));
    assert_eq!(hccn::link("busy"), None);
    assert_eq!(hccn::net_health("net health status: Success"), Some(true));
    assert_eq!(hccn::net_health("net health status: Init"), None);
    assert_eq!(hccn::net_health("net health status: Unreachable"), Some(false));
    assert_eq!(hccn::speed("Speed: 200000 Mb/s\n"), Some(200_000));
    assert_eq!(hccn::speed("Speed: Unknown!\n"), None);
    let port = "400GE1/1/20:1".to_owned();
    let neighbour = |switch: &str| Some(Neighbour { switch: switch.into(), port: port.clone() });
    assert_eq!(hccn::lldp(LLDP), neighbour("leaf-07"));
    assert_eq!(hccn::lldp(&LLDP.replace("leaf-07", "")), neighbour("02:aa:bb:cc:00:01"));
    assert_eq!(hccn::lldp(&LLDP.replace("Ifname", "Other")), None);
}

#[test]
fn the_installation_is_followed_only_where_it_can_be() {
    assert_eq!(install::version("a=b\nversion = 25.2.0\n").as_deref(), Some("25.2.0"));
    assert_eq!(install::version("package_version=1\nVersion=\n"), None);
    for (path, expected) in [
        ("/opt/Ascend/", Some("/opt/Ascend/driver")),
        ("/usr/local/Ascend", Some("/usr/local/Ascend/driver")),
        ("/opt/../tmp", None),
        ("relative", None),
        ("/", None),
    ] {
        let text = format!("UserName=x\nDriver_Install_Path_Param={path}\n");
        assert_eq!(install::driver(&text).as_deref(), expected, "{path}");
    }
}

/// Runs every parser; what comes out must be within bounds.
fn all_within_bounds(text: &str) {
    let rows = info::info(text).unwrap_or_default();
    assert!(rows.len() <= MOST && rows.iter().all(|row| row.name.chars().count() <= WORD));
    assert!(rows.iter().all(|row| (row.npu as usize) < MOST && !row.name.contains('\u{1b}')));
    assert!(mapping::mapping(text).unwrap_or_default().len() <= MOST);
    assert!(mapping::listing(text).len() <= MOST);
    let topo = topo::topo(text).unwrap_or_default();
    assert!(topo.numbers.len() <= 128 && topo.cpus.values().all(|cores| cores.len() <= 256));
    assert!(topo.joins.keys().all(|(a, b)| a < b && topo.numbers.contains(b)));
    let conf = conf::conf(text);
    assert!(conf.addresses.keys().all(|id| (*id as usize) < MOST));
    assert!(conf.addresses.values().flatten().all(is_reachable));
    assert!(hccn::ip(text).flatten().iter().all(is_reachable));
    let neighbour = hccn::lldp(text);
    assert!(neighbour.is_none_or(|n| n.switch.chars().count() <= WORD && !n.port.is_empty()));
    let (_, _, _, _) =
        (hccn::link(text), hccn::net_health(text), hccn::speed(text), spod::spod(text));
    let version = install::version(text).unwrap_or_default();
    assert!(version.chars().count() <= WORD);
    assert!(install::driver(text).is_none_or(|path| path.starts_with('/') && !path.contains("..")));
}

proptest! {
    #[test]
    fn any_text_stays_within_bounds(text in any::<String>()) {
        all_within_bounds(&text);
    }

    #[test]
    fn any_bytes_stay_within_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        all_within_bounds(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn good_texts_with_changes_stay_within_bounds(
        which in 0..SAMPLES.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..24),
        cut in any::<prop::sample::Index>(),
        times in 1_usize..4,
    ) {
        let mut bytes = SAMPLES[which].repeat(times).into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        all_within_bounds(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn endless_lists_end() {
    let mut table = DUO.lines().take(2).collect::<Vec<_>>().join("\n");
    for npu in 0..MOST as u32 {
        for chip in 0..2 {
            table += &format!("\n| {npu} 310P3 | OK | x |\n| {chip} 0 | 0000:01:00.0 | x |");
        }
    }
    assert_eq!(info::info(&table).unwrap().len(), MOST);
    let head: String = (0..200).map(|n| format!("NPU{n} ")).collect();
    assert_eq!(topo::topo(&format!("{head}\nNPU0 X HCCS\n")), None);
}
