use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use muster_proto::device::{Driver, End, Join, Link, Neighbour, PortState, SuperPod, Vendor};
use muster_sandbox::hardware::{Profile, Quirks};
use tempfile::TempDir;

use super::*;
use crate::host::Host;

struct Node {
    root: TempDir,
    host: Host,
    ascend: Ascend,
}

impl Node {
    fn of(profile: Profile) -> Self {
        let root = tempfile::tempdir().unwrap();
        profile.lay_out(root.path(), 0).unwrap();
        let host = Host::at(root.path());
        Self { root, host, ascend: Ascend::new() }
    }

    fn tools(&self) -> Tools {
        Tools::new(self.host.clone(), Duration::from_secs(30), 8)
    }

    async fn scan_all(&mut self, tools: &Tools) -> SourceReport {
        self.look_at(tools, 0).await
    }

    async fn look_at(&mut self, tools: &Tools, second: i64) -> SourceReport {
        let now = Timestamp::from_second(second).unwrap();
        self.ascend.scan_all(&self.files(), tools, now).await
    }

    fn files(&self) -> Files {
        Files::read(&self.host)
    }

    fn scan_files(&self) -> SourceReport {
        self.ascend.scan_files(&self.files())
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.root.path().join(path)).unwrap();
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.root.path().join(path), text).unwrap();
    }

    /// Changes what a tool prints.
    fn edit(&self, path: &str, from: &str, to: &str) {
        let place = self.root.path().join(path);
        let text = fs::read_to_string(&place).unwrap();
        assert!(text.contains(from), "{from}");
        // A new file: the old may be running.
        fs::remove_file(&place).unwrap();
        fs::write(&place, text.replace(from, to)).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

const SMI: &str = "usr/local/sbin/npu-smi";
const HCCN: &str = "usr/local/Ascend/driver/tools/hccn_tool";

fn reasons(report: &SourceReport) -> Vec<(&'static str, &str)> {
    report.findings.iter().map(|finding| (finding.reason, finding.subject.as_str())).collect()
}

fn finding<'a>(report: &'a SourceReport, reason: &str) -> &'a Finding {
    report.findings.iter().find(|finding| finding.reason == reason).unwrap_or_else(|| {
        panic!("no {reason} in {:?}", report.findings);
    })
}

fn ips(report: &SourceReport) -> Vec<String> {
    let ip = |device: &Device| device.ip.map_or_else(String::new, |ip| ip.to_string());
    report.devices.iter().map(ip).collect()
}

fn health(report: &SourceReport) -> Vec<&'static str> {
    report.devices.iter().map(|device| device.health.word()).collect()
}

/// Links of all pairs, by the join of each.
fn pairs(count: u32, join: impl Fn(u32, u32) -> Join) -> Vec<Link> {
    let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    pairs.map(|(a, b)| Link { a: End::Npu(a), b: End::Npu(b), join: join(a, b) }).collect()
}

fn driver(version: &str) -> Vec<Driver> {
    vec![Driver { vendor: Vendor::Ascend, version: version.into() }]
}

/// Buses, NUMA nodes and addresses of the 910 profiles, by physical id.
fn device_910(id: u32, chip: Chip, model: &str, place: (&str, u32), ip: String) -> Device {
    let (bus, numa) = place;
    let mut device = Device::new(Vendor::Ascend, id, format!("/dev/davinci{id}"));
    device.chip = chip;
    device.model = model.into();
    device.health = Health::Ok;
    device.logic_id = Some(id);
    device.card = Some((id, 0));
    device.pci = Some(format!("0000:{bus}:00.0").parse().unwrap());
    device.numa = Some(numa);
    device.cpus = Some(format!("{}-{}", numa * 24, numa * 24 + 23));
    device.ip = Some(ip.parse().unwrap());
    device.port = PortState::Up;
    device.neighbour =
        Some(Neighbour { switch: "leaf-07".into(), port: format!("400GE1/1/{}:1", 20 + id) });
    device
}

const PLACES_910B: [(&str, u32); 8] =
    [("c1", 6), ("c2", 6), ("81", 4), ("82", 4), ("01", 0), ("02", 0), ("41", 2), ("42", 2)];

fn devices_910b() -> Vec<Device> {
    let places = (0..).zip(PLACES_910B);
    let mut devices: Vec<Device> = places
        .map(|(id, place)| {
            let ip = format!("10.20.0.{}", id + 2);
            let mut device = device_910(id, Chip::Ascend910b, "910B3", place, ip);
            device.island = Some(0);
            device
        })
        .collect();
    devices[3].port = PortState::Down;
    devices[3].health = Health::Degraded("link down".into());
    devices
}

#[tokio::test]
async fn a_910b_node_is_one_mesh_with_a_port_down() {
    let mut node = Node::of(Profile::Ascend910b8);
    let report = node.scan_all(&node.tools()).await;
    let mesh = pairs(8, |_, _| Join::Hccs);
    let expected = SourceReport {
        drivers: driver("25.2.0"),
        devices: devices_910b(),
        links: mesh,
        findings: vec![Finding::new(
            "link-down",
            "davinci3 port",
            "the port of davinci3 has no link; look at cable and switch",
        )],
        ..SourceReport::default()
    };
    assert_eq!(report, expected);
    // A wider table of a later tool says the same.
    let tools = node.tools().env("FAKE_LAYOUT", "26");
    assert_eq!(Node::of(Profile::Ascend910b8).scan_all(&tools).await, expected);
}

#[tokio::test]
async fn a_910a_node_is_two_rings_on_four_networks() {
    let mut node = Node::of(Profile::Ascend910a8);
    let report = node.scan_all(&node.tools()).await;
    let places =
        [("c1", 6), ("81", 4), ("41", 2), ("01", 0), ("c2", 6), ("82", 4), ("42", 2), ("02", 0)];
    let devices = (0..).zip(places).map(|(id, place)| {
        let ip = format!("10.30.{}.{}", id % 4, 2 + id / 4);
        let mut device = device_910(id, Chip::Ascend910a, "910A", place, ip);
        device.island = Some(id / 4);
        device
    });
    let join = |a: u32, b: u32| if a / 4 == b / 4 { Join::Hccs } else { Join::Sys };
    let expected = SourceReport {
        drivers: driver("25.2.0"),
        devices: devices.collect(),
        links: pairs(8, join),
        ..SourceReport::default()
    };
    assert_eq!(report, expected);
}

fn devices_a3() -> Vec<Device> {
    let dies = (0..16).map(|id: u32| {
        let (npu, die) = (id / 2, id % 2);
        let bus = format!("{:02x}", 0x9d - 4 * npu + 2 * die);
        let numa = [0, 0, 2, 2, 4, 4, 6, 6][npu as usize];
        let ip = format!("10.0.{}.{}", 245 - die, 11 + npu);
        let mut device = device_910(id, Chip::AscendA3, "Ascend910", (&bus, numa), ip);
        device.card = Some((npu, die));
        device.vnic_ip = Some(format!("192.168.40.{}", id + 1).parse().unwrap());
        device.super_device_id = Some(40 << 22 | npu << 18 | die << 16 | id);
        device.island = Some(0);
        device
    });
    dies.collect()
}

fn joined_a3(a: u32, b: u32) -> Join {
    if a / 2 == b / 2 { Join::Sio } else { Join::HccsSwitch }
}

#[tokio::test]
async fn an_a3_node_is_a_server_of_its_super_pod() {
    let mut node = Node::of(Profile::AscendA316);
    let report = node.scan_all(&node.tools()).await;
    let expected = SourceReport {
        drivers: driver("25.3.rc1"),
        devices: devices_a3(),
        links: pairs(16, joined_a3),
        super_pod: Some(SuperPod { id: 0, server_index: 40, size: Some(384) }),
        ..SourceReport::default()
    };
    assert_eq!(report, expected);
    assert_eq!(report.devices[11].super_device_id, Some(169_148_427));
    // An older tool does not tell the switch.
    let tools = node.tools().env("FAKE_TOPO", "old");
    let report = Node::of(Profile::AscendA316).scan_all(&tools).await;
    assert_eq!((report.links[1].join, report.devices[15].island), (Join::Hccs, Some(0)));
}

#[tokio::test]
async fn an_a3_node_without_a_super_pod_is_in_none() {
    for (said, sdid) in [("none", Some(167_772_160)), ("unsupported", None)] {
        let mut node = Node::of(Profile::AscendA316);
        let report = node.scan_all(&node.tools().env("FAKE_SPOD", said)).await;
        assert_eq!((report.super_pod, report.devices[0].super_device_id), (None, sdid));
        assert_eq!(reasons(&report), []);
    }
}

#[tokio::test]
async fn a_super_device_id_that_does_not_fit_is_kept_and_told() {
    let mut node = Node::of(Profile::AscendA316);
    node.edit(SMI, "SDID                           : 167837697", "SDID : 12345");
    let report = node.scan_all(&node.tools()).await;
    assert_eq!(report.devices[1].super_device_id, Some(12345));
    assert_eq!(reasons(&report), [("super-device-id-odd", "davinci1 super device id")]);
    // All ones are no id, and no reason to complain.
    let mut node = Node::of(Profile::AscendA316);
    node.edit(SMI, "SDID                           : 167837697", "SDID : 4294967295");
    let report = node.scan_all(&node.tools()).await;
    assert_eq!((report.devices[1].super_device_id, reasons(&report)), (None, vec![]));
}

#[tokio::test]
async fn a_310p_node_has_chips_without_ports() {
    let mut node = Node::of(Profile::Ascend310p);
    let log = node.root.path().join("log");
    let report = node.scan_all(&node.tools().env("FAKE_LOG", log.to_str().unwrap())).await;
    let cards = [(1, "01", Some(0)), (2, "02", Some(0)), (4, "81", None), (5, "82", None)];
    let devices = (0..8).map(|id: u32| {
        let (npu, bus, numa) = cards[id as usize / 2];
        let mut device = Device::new(Vendor::Ascend, id, format!("/dev/davinci{id}"));
        device.chip = Chip::Ascend310p;
        device.model = "310P3".into();
        device.health = Health::Ok;
        device.logic_id = Some(id);
        device.card = Some((npu, id % 2));
        device.pci = Some(format!("0000:{bus}:00.0").parse().unwrap());
        device.numa = numa;
        device.cpus = Some(if numa.is_some() { "0-23".into() } else { "0-95".into() });
        device
    });
    let devices = devices.collect();
    assert_eq!(
        report,
        SourceReport { drivers: driver("25.2.0"), devices, ..SourceReport::default() }
    );
    let asked = fs::read_to_string(log).unwrap();
    assert!(!asked.contains("hccn_tool"), "{asked}");
}

#[tokio::test]
async fn a_node_without_ascend_devices_is_not_asked() {
    for profile in [Profile::Cpu, Profile::NvidiaH1008] {
        let mut node = Node::of(profile);
        assert_eq!(node.scan_all(&node.tools()).await, SourceReport::default());
        assert_eq!(node.scan_files(), SourceReport::default());
    }
}

#[test]
fn files_alone_give_devices_addresses_and_the_likely_links() {
    for (profile, links) in [
        (Profile::Ascend910b8, pairs(8, |_, _| Join::Hccs)),
        (Profile::AscendA316, pairs(16, joined_a3)),
        (Profile::Ascend310p, vec![]),
    ] {
        let node = Node::of(profile);
        let report = node.scan_files();
        assert_eq!(report.links, links, "{profile}");
        assert_eq!(report.devices.len(), profile.devices(0).len());
        assert!(report.devices.iter().all(|device| device.health == Health::Unknown));
        let port = report.devices[0].chip.has_port();
        assert!(report.devices.iter().all(|device| device.ip.is_some() == port), "{profile}");
        assert_eq!((reasons(&report), report.drivers.len()), (vec![], 1));
    }
    let node = Node::of(Profile::Ascend910a8);
    let report = node.scan_files();
    let islands: Vec<u32> = report.devices.iter().filter_map(|device| device.island).collect();
    assert_eq!((islands, report.links.len()), (vec![0, 0, 0, 0, 1, 1, 1, 1], 12));
}

#[test]
fn a_driver_without_chips_and_chips_without_a_driver_are_told() {
    let node = Node::of(Profile::Ascend910b8);
    let files = || node.scan_files();
    for id in 0..8 {
        node.remove(&format!("dev/davinci{id}"));
    }
    assert_eq!(reasons(&files()), [("driver-without-chips", "/dev/davinci_manager")]);
    node.remove("dev/davinci_manager");
    assert_eq!(reasons(&files()), [("driver-absent", "/usr/local/Ascend/driver")]);
}

#[tokio::test]
async fn a_driver_elsewhere_is_found() {
    let mut node = Node::of(Profile::Ascend910b8);
    let root = node.root.path();
    fs::create_dir(root.join("opt")).unwrap();
    fs::rename(root.join("usr/local/Ascend"), root.join("opt/Ascend")).unwrap();
    node.write("etc/ascend_install.info", "Driver_Install_Path_Param=/opt/Ascend\n");
    // Its libraries are there as well.
    let (libraries, note) = (root.join("opt/Ascend/driver/lib64/driver"), root.join("note"));
    fs::create_dir_all(&libraries).unwrap();
    node.edit(SMI, "tool=npu-smi\n", "tool=npu-smi\necho $LD_LIBRARY_PATH > $NOTE\n");
    let report = node.scan_all(&node.tools().env("NOTE", note.to_str().unwrap())).await;
    assert_eq!((report.devices, report.drivers), (devices_910b(), driver("25.2.0")));
    assert_eq!(fs::read_to_string(note).unwrap().trim(), libraries.to_str().unwrap());
}

#[tokio::test]
async fn a_device_file_that_vanishes_is_a_fault() {
    let mut node = Node::of(Profile::Ascend910b8);
    node.scan_all(&node.tools()).await;
    node.remove("dev/davinci5");
    let mut expected = devices_910b();
    let gone = &mut expected[5];
    gone.health = Health::Faulty(merge::GONE.into());
    (gone.logic_id, gone.ip, gone.port) = (None, None, PortState::Unknown);
    let quick = node.scan_files();
    assert_eq!(quick.devices, expected, "files alone see it, and keep what is known of the others");
    let mut slow = node.scan_all(&node.tools()).await;
    // The tool still lists it, with its number.
    assert_eq!(slow.devices[5].logic_id.take(), None);
    assert_eq!(slow.devices, expected);
    assert_eq!(finding(&slow, "device-file-gone").subject, "/dev/davinci5");
    node.write("dev/davinci5", "");
    assert_eq!(node.scan_all(&node.tools()).await.devices, devices_910b(), "and it comes back");
}

#[tokio::test]
async fn a_device_file_that_appears_is_unknown_until_somebody_was_asked() {
    for profile in [Profile::Ascend310p, Profile::Ascend910b8] {
        let mut node = Node::of(profile);
        let before = node.scan_all(&node.tools()).await;
        node.write("dev/davinci8", "");
        let report = node.scan_files();
        assert_eq!(report.devices[..8], before.devices, "{profile}");
        assert_eq!((report.devices[8].id, &report.devices[8].health), (8, &Health::Unknown));
    }
}

#[tokio::test]
async fn a_device_that_only_the_tool_knows_is_a_fault() {
    let mut node = Node::of(Profile::Ascend910b8);
    node.remove("dev/davinci5");
    let report = node.scan_all(&node.tools()).await;
    let device = &report.devices[5];
    assert_eq!((device.id, &device.health), (5, &Health::Faulty(merge::GONE.into())));
    assert_eq!((device.model.as_str(), device.ip), ("910B3", None));
}

#[tokio::test]
async fn a_device_that_the_tool_does_not_list_is_a_fault() {
    let mut node = Node::of(Profile::Ascend910b8);
    node.write("dev/davinci8", "");
    let report = node.scan_all(&node.tools()).await;
    assert_eq!(report.devices[8].health, Health::Faulty(merge::UNSEEN.into()));
    assert_eq!(report.devices[..8], devices_910b());
    // Where order is all that tells, nothing can be told of any.
    let mut node = Node::of(Profile::Ascend310p);
    node.write("dev/davinci8", "");
    let report = node.scan_all(&node.tools()).await;
    assert_eq!(health(&report), ["unknown"; 9]);
    assert_eq!(reasons(&report), [("devices-unmatched", "device numbers")]);
}

#[tokio::test]
async fn health_words_become_health() {
    let mut node = Node::of(Profile::Ascend910b8);
    for (id, word) in [(0, "Warning"), (1, "Alarm"), (2, "Critical"), (4, "UNKNOWN")] {
        let cell = |health: &str| format!("| {id}     910B3               | {health:<14}|");
        node.edit(SMI, &cell("OK"), &cell(word));
    }
    let report = node.scan_all(&node.tools()).await;
    let faulty = |word: &str| Health::Faulty(word.into());
    let found: Vec<&Health> = report.devices.iter().take(5).map(|device| &device.health).collect();
    assert_eq!(
        found,
        [
            &Health::Degraded("Warning".into()),
            &faulty("Alarm"),
            &faulty("Critical"),
            &Health::Degraded("link down".into()),
            &Health::Unknown
        ]
    );
}

#[tokio::test]
async fn tools_that_print_garbage_leave_what_files_say() {
    let mut node = Node::of(Profile::AscendA316);
    let files = node.scan_files();
    let mut report = node.scan_all(&node.tools().env("FAKE_GARBAGE", "1")).await;
    assert_eq!(
        reasons(&report),
        [
            ("tool-garbled", "hccn_tool -ip"),
            ("tool-garbled", "hccn_tool -link"),
            ("tool-garbled", "hccn_tool -vnic"),
            ("tool-garbled", "npu-smi info"),
            ("tool-garbled", "npu-smi info -m"),
            ("tool-garbled", "npu-smi info -t topo"),
        ]
    );
    assert!(finding(&report, "tool-garbled").message.starts_with("davinci0, davinci1, "));
    report.findings.clear();
    assert_eq!(report, files);
}

#[tokio::test]
async fn one_device_that_a_tool_does_not_know_costs_only_its_own_facts() {
    let mut node = Node::of(Profile::Ascend910b8);
    let report = node.scan_all(&node.tools().env("FAKE_FAIL", "6")).await;
    let mut expected = devices_910b();
    // Its address is still in hccn.conf.
    (expected[6].port, expected[6].neighbour) = (PortState::Unknown, None);
    assert_eq!(report.devices, expected);
    let failed: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.reason == "tool-failed").collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed.iter().all(|finding| finding.message.starts_with("davinci6: ")));
}

#[tokio::test]
async fn a_tool_that_hangs_costs_one_limit() {
    let mut node = Node::of(Profile::AscendA316);
    let files = node.scan_files();
    let limit = Duration::from_millis(1500);
    let log = node.root.path().join("log");
    let tools = Tools::new(node.host.clone(), limit, 16)
        .env("FAKE_HANG", "all")
        .env("FAKE_LOG", log.to_str().unwrap());
    let before = Instant::now();
    let mut report = node.scan_all(&tools).await;
    // Two steps: chips, then ports. Asking all sixteen one after the other would take ten times as long.
    assert!(before.elapsed() < 4 * limit, "{:?}", before.elapsed());
    let asked = fs::read_to_string(log).unwrap();
    let links = asked.lines().filter(|line| line.contains("-link")).count();
    assert!(links <= 2, "{asked}");
    assert!(report.findings.iter().all(|finding| finding.reason == "tool-hangs"));
    assert_eq!(report.findings.len(), 7, "{:?}", report.findings);
    report.findings.clear();
    assert_eq!(report, files);
}

#[tokio::test]
async fn one_device_that_hangs_does_not_hide_the_others() {
    let check = async |id: &str| {
        let mut node = Node::of(Profile::Ascend910b8);
        let tools = Tools::new(node.host.clone(), Duration::from_secs(3), 16).env("FAKE_HANG", id);
        let report = node.scan_all(&tools).await;
        let known = report.devices.iter().filter(|device| device.port != PortState::Unknown);
        assert_eq!(known.count(), 7, "{:?}", report.findings);
        let message = &finding(&report, "tool-hangs").message;
        assert!(message.starts_with(&format!("davinci{id}: ")), "{message}");
    };
    tokio::join!(check("0"), check("5"));
}

#[tokio::test]
async fn absent_tools_are_two_findings() {
    let mut node = Node::of(Profile::Ascend910b8);
    let files = node.scan_files();
    node.remove(SMI);
    node.remove(HCCN);
    let mut report = node.scan_all(&node.tools()).await;
    assert_eq!(reasons(&report), [("tool-absent", "hccn_tool"), ("tool-absent", "npu-smi")]);
    report.findings.clear();
    assert_eq!(report, files);
}

#[tokio::test]
async fn what_the_driver_has_is_believed_over_a_stale_file() {
    let mut node = Node::of(Profile::Ascend910b8);
    let conf = fs::read_to_string(node.root.path().join("etc/hccn.conf")).unwrap();
    node.write("etc/hccn.conf", &conf.replace("address_2=10.20.0.4", "address_2=10.99.0.4"));
    let report = node.scan_all(&node.tools()).await;
    assert_eq!(ips(&report)[2], "10.20.0.4");
    let Finding { subject, message, .. } = finding(&report, "address-differs");
    assert_eq!(subject, "davinci2 address");
    assert!(message.contains("10.20.0.4") && message.contains("10.99.0.4"), "{message}");
    assert_eq!(ips(&node.scan_files())[2], "10.20.0.4", "also the quick look");
}

#[tokio::test]
async fn a_device_that_the_driver_has_no_address_of_has_none() {
    let mut node = Node::of(Profile::Ascend910b8);
    let report = node.scan_all(&node.tools().env("FAKE_NOIP", "5")).await;
    assert_eq!((ips(&report)[5].as_str(), ips(&report)[4].as_str()), ("", "10.20.0.6"));
    assert!(finding(&report, "address-differs").message.contains("has none"));
    // It is asked again at once: somebody is configuring it.
    let report = node.scan_all(&node.tools()).await;
    assert_eq!(ips(&report)[5], "10.20.0.7");
}

#[tokio::test]
async fn an_address_of_two_devices_is_published_of_neither() {
    let mut node = Node::of(Profile::Ascend910b8);
    node.edit(HCCN, "ip=10.20.0.9 ", "ip=10.20.0.2 ");
    let conf = fs::read_to_string(node.root.path().join("etc/hccn.conf")).unwrap();
    node.write("etc/hccn.conf", &conf.replace("=10.20.0.9", "=10.20.0.2"));
    for report in [node.scan_files(), node.scan_all(&node.tools()).await] {
        assert_eq!((ips(&report)[0].as_str(), ips(&report)[7].as_str()), ("", ""));
        assert_eq!(ips(&report)[1], "10.20.0.3");
        let Finding { subject, message, .. } = finding(&report, "duplicate-address");
        assert_eq!(subject, "address 10.20.0.2");
        assert!(message.contains("davinci0, davinci7"), "{message}");
    }
}

#[tokio::test]
async fn a_missing_hccn_conf_matters_only_when_the_driver_has_no_addresses() {
    let mut node = Node::of(Profile::Ascend910b8);
    node.remove("etc/hccn.conf");
    assert_eq!(reasons(&node.scan_files()), []);
    let report = node.scan_all(&node.tools()).await;
    assert_eq!((report.devices, report.findings.len()), (devices_910b(), 1));
    let mut node = Node::of(Profile::Ascend910b8);
    node.remove("etc/hccn.conf");
    node.edit(HCCN, "echo \"ipaddr:$ip\"; echo \"netmask:$mask\"", "");
    let report = node.scan_all(&node.tools()).await;
    assert_eq!(finding(&report, "hccn-conf-absent").subject, "/etc/hccn.conf");
    assert_eq!(ips(&report), [""; 8]);
}

#[tokio::test]
async fn a_hccn_conf_that_cannot_be_used_is_told_and_tools_go_on() {
    let huge = "address_0=10.20.0.2\n".repeat(20_000);
    type Spoil<'a> = &'a dyn Fn(&Node);
    let cases: [(&str, Spoil<'_>); 3] = [
        ("too-large", &|node| node.write("etc/hccn.conf", &huge)),
        ("not-regular", &|node| {
            node.remove("etc/hccn.conf");
            fs::create_dir(node.root.path().join("etc/hccn.conf")).unwrap();
        }),
        ("io", &|node| {
            node.remove("etc/hccn.conf");
            std::os::unix::fs::symlink("hccn.conf", node.root.path().join("etc/hccn.conf"))
                .unwrap();
        }),
    ];
    for (reason, spoil) in cases {
        let mut node = Node::of(Profile::Ascend910b8);
        spoil(&node);
        let report = node.scan_all(&node.tools()).await;
        assert_eq!(report.devices, devices_910b(), "{reason}");
        assert_eq!(finding(&report, reason).subject, "/etc/hccn.conf");
    }
    // Root reads everything, so this cannot be shown by root.
    if !nix::unistd::geteuid().is_root() {
        let mut node = Node::of(Profile::Ascend910b8);
        let conf = node.root.path().join("etc/hccn.conf");
        fs::set_permissions(conf, fs::Permissions::from_mode(0o000)).unwrap();
        let report = node.scan_all(&node.tools()).await;
        assert_eq!(report.devices, devices_910b());
        assert_eq!(finding(&report, "unreadable").subject, "/etc/hccn.conf");
    }
}

#[test]
fn a_file_that_ends_early_or_has_nonsense_gives_what_it_has() {
    let node = Node::of(Profile::Ascend910b8);
    let quirks = Quirks { truncated_hccn: true, ..Quirks::default() };
    Profile::Ascend910b8.lay_out_with(node.root.path(), 0, quirks).unwrap();
    assert_eq!(ips(&node.scan_files())[7], "10.20.0.9");
    node.write("etc/hccn.conf", "address_0=127.0.0.1\naddress_1=10.20.0.3\n\u{1}\naddress_2");
    let report = node.scan_files();
    assert_eq!(ips(&report)[..3], ["", "10.20.0.3", ""]);
    assert_eq!(reasons(&report), [("address-malformed", "address_0")]);
}

#[tokio::test]
async fn slow_facts_are_kept_until_something_changes_or_they_are_old() {
    let mut node = Node::of(Profile::AscendA316);
    let log = node.root.path().join("log");
    let tools = node.tools().env("FAKE_LOG", log.to_str().unwrap());
    let mut counted = Vec::new();
    let mut look = async |node: &mut Node, second: i64| {
        let report = node.look_at(&tools, second).await;
        let asked = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        let count = |what: &str| asked.lines().filter(|line| line.contains(what)).count();
        counted.push((count("npu-smi info"), count("-link"), count("-ip"), count("-lldp")));
        report
    };
    let first = look(&mut node, 0).await;
    let all = (3 + 16, 16, 16, 16);
    let health = (1, 16, 0, 0);
    assert_eq!(look(&mut node, 599).await, first);
    look(&mut node, 600).await;
    look(&mut node, 601).await;
    // Back in time: nobody knows how old anything is.
    look(&mut node, 1).await;
    node.write("usr/local/Ascend/driver/version.info", "Version=26.0.0\n");
    look(&mut node, 2).await;
    node.write("etc/hccn.conf", "address_0=10.0.245.11\n");
    look(&mut node, 3).await;
    node.remove("dev/davinci15");
    look(&mut node, 4).await;
    let less = (3 + 15, 15, 15, 15);
    assert_eq!(counted, [all, health, all, health, all, all, all, less]);
}

#[tokio::test]
async fn a_tool_that_fails_later_leaves_places_and_forgets_health() {
    let mut node = Node::of(Profile::Ascend910b8);
    node.scan_all(&node.tools()).await;
    let report = node.look_at(&node.tools().env("FAKE_FAIL", "all"), 700).await;
    let mut expected = devices_910b();
    for device in &mut expected {
        (device.health, device.port) = (Health::Unknown, PortState::Unknown);
        device.neighbour = None;
    }
    assert_eq!(report.devices, expected);
    assert_eq!(report.links.len(), 28);
}

#[tokio::test]
async fn a_file_that_changes_takes_nothing_from_devices() {
    let mut node = Node::of(Profile::AscendA316);
    assert!(node.ascend.is_due(&node.files()), "nobody was asked");
    let before = node.scan_all(&node.tools()).await;
    assert!(!node.ascend.is_due(&node.files()));
    for (path, text) in [
        ("usr/local/Ascend/driver/version.info", "Version=26.0.0\n"),
        ("etc/hccn.conf", "address_0=10.0.245.99\n"),
    ] {
        node.write(path, text);
        let quick = node.scan_files();
        let told = |report: &SourceReport| {
            (report.devices.clone(), report.links.clone(), report.super_pod)
        };
        assert_eq!(told(&quick), told(&before), "{path}");
        assert!(node.ascend.is_due(&node.files()), "{path}");
        node.scan_all(&node.tools()).await;
        assert!(!node.ascend.is_due(&node.files()), "{path}");
    }
    for id in 0..16 {
        node.remove(&format!("dev/davinci{id}"));
    }
    assert!(node.ascend.is_due(&node.files()), "all are gone");
    node.scan_all(&node.tools()).await;
    assert!(!node.ascend.is_due(&node.files()), "and nobody is left to ask about");
}

#[tokio::test]
async fn a_device_that_goes_while_tools_hang_takes_nothing_from_the_others() {
    let mut node = Node::of(Profile::AscendA316);
    let before = node.scan_all(&node.tools()).await;
    node.remove("dev/davinci15");
    let limit = Duration::from_millis(500);
    let hanging = Tools::new(node.host.clone(), limit, 16).env("FAKE_HANG", "all");
    // Also when slow facts are not new any more.
    for second in [1, 2] {
        let report = node.look_at(&hanging, second).await;
        let mut expected = before.devices.clone();
        for device in &mut expected {
            (device.health, device.port) = (Health::Unknown, PortState::Unknown);
        }
        assert_eq!(report.devices[..15], expected[..15]);
        assert_eq!(report.devices[15].health, Health::Faulty(merge::GONE.into()));
        assert_eq!((report.links, report.super_pod), (before.links.clone(), before.super_pod));
    }
    // What is owed is asked as soon as somebody answers.
    let log = node.root.path().join("log");
    let tools = node.tools().env("FAKE_LOG", log.to_str().unwrap());
    let report = node.look_at(&tools, 3).await;
    assert_eq!(report.devices[..15], before.devices[..15]);
    let asked = fs::read_to_string(log).unwrap();
    let count = |what: &str| asked.lines().filter(|line| line.contains(what)).count();
    let counts = ["info -m", "topo", "spod", "-ip", "-vnic", "-lldp"].map(count);
    assert_eq!(counts, [1, 1, 15, 15, 15, 15], "{asked}");
}

#[tokio::test]
async fn a_device_that_comes_while_tools_hang_is_unknown_and_takes_nothing_from_the_others() {
    for profile in [Profile::Ascend910b8, Profile::Ascend310p] {
        let mut node = Node::of(profile);
        let before = node.scan_all(&node.tools()).await;
        node.write("dev/davinci8", "");
        let limit = Duration::from_millis(500);
        let hanging = Tools::new(node.host.clone(), limit, 16).env("FAKE_HANG", "all");
        let report = node.look_at(&hanging, 1).await;
        let mut expected = before.devices.clone();
        for device in &mut expected {
            (device.health, device.port) = (Health::Unknown, PortState::Unknown);
        }
        assert_eq!(report.devices[..8], expected, "{profile}");
        assert_eq!((report.devices[8].id, &report.devices[8].health), (8, &Health::Unknown));
    }
}

/// Where `npu-smi` tells the place of davinci7, and that it refuses to.
const PLACE: &str = "\"info -t spod-info -i 3 -c 1\")\n";
const NO_PLACE: &str = "\"info -t spod-info -i 3 -c 1\")\necho busy >&2; exit 1\n";

#[tokio::test]
async fn a_die_that_is_refused_its_place_is_asked_again_while_others_have_one() {
    let mut node = Node::of(Profile::AscendA316);
    node.edit(SMI, PLACE, NO_PLACE);
    let log = node.root.path().join("log");
    let tools = node.tools().env("FAKE_LOG", log.to_str().unwrap());
    for (second, count) in [(0, 16), (1, 1)] {
        let report = node.look_at(&tools, second).await;
        let place = Some(SuperPod { id: 0, server_index: 40, size: Some(384) });
        assert_eq!((report.super_pod, report.devices[7].super_device_id), (place, None));
        assert_eq!(reasons(&report), [("super-pod-partial", "super-pod places")]);
        let message = &report.findings[0].message;
        assert!(message.starts_with("davinci7: ") && message.contains("busy"), "{message}");
        let asked = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        assert_eq!(asked.lines().filter(|line| line.contains("spod")).count(), count);
    }
    node.edit(SMI, NO_PLACE, PLACE);
    let report = node.look_at(&tools, 2).await;
    assert_eq!((report.devices, report.findings), (devices_a3(), vec![]));
}

#[tokio::test]
async fn a_refusal_takes_no_known_place_away() {
    let mut node = Node::of(Profile::AscendA316);
    let before = node.scan_all(&node.tools()).await;
    node.edit(SMI, PLACE, NO_PLACE);
    for second in [700, 701] {
        let report = node.look_at(&node.tools(), second).await;
        assert_eq!((&report.devices, report.super_pod), (&before.devices, before.super_pod));
        assert_eq!(reasons(&report), [("super-pod-partial", "super-pod places")]);
    }
    // Nor do sixteen.
    let report = node.look_at(&node.tools().env("FAKE_SPOD", "unsupported"), 1400).await;
    assert_eq!((&report.devices, report.super_pod), (&before.devices, before.super_pod));
    assert!(finding(&report, "super-pod-partial").message.starts_with("davinci0, davinci1, "));
    node.edit(SMI, NO_PLACE, PLACE);
    assert_eq!(node.look_at(&node.tools(), 1401).await, before);
}

#[tokio::test]
async fn a_node_that_is_refused_all_places_is_not_asked_again_soon() {
    let mut node = Node::of(Profile::AscendA316);
    let log = node.root.path().join("log");
    let tools = node.tools().env("FAKE_LOG", log.to_str().unwrap());
    let tools = tools.env("FAKE_SPOD", "unsupported");
    for (second, count) in [(0, 16), (1, 0), (600, 16)] {
        let report = node.look_at(&tools, second).await;
        assert_eq!((report.super_pod, reasons(&report)), (None, vec![]));
        let asked = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        assert_eq!(asked.lines().filter(|line| line.contains("spod")).count(), count);
    }
}

#[cfg(feature = "dcmi")]
mod with_library {
    use super::*;

    impl Node {
        /// An A3 node with a library that is compiled with this switch.
        fn with_library(switch: &str) -> Self {
            let node = Self::of(Profile::AscendA316);
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/dcmi/tests/libdcmi.c");
            let compiled = std::process::Command::new("cc")
                .args(["-shared", "-fPIC", "-o"])
                .arg(node.library())
                .args([source, &format!("-D{switch}")])
                .status();
            assert!(compiled.unwrap().success());
            node
        }

        /// Where the library is.
        fn library(&self) -> std::path::PathBuf {
            let folder = self.root.path().join("usr/local/Ascend/driver/lib64/driver");
            fs::create_dir_all(&folder).unwrap();
            folder.join("libdcmi.so")
        }
    }

    #[tokio::test]
    async fn the_library_is_believed_first_and_tools_fill_in() {
        let mut node = Node::with_library("GOOD");
        let log = node.root.path().join("log");
        let report = node.scan_all(&node.tools().env("FAKE_LOG", log.to_str().unwrap())).await;
        let mut expected = devices_a3();
        // Only the library knows of this.
        expected[7].health = Health::Faulty("Alarm".into());
        assert_eq!((report.devices, report.findings), (expected, vec![]));
        assert_eq!(report.super_pod, Some(SuperPod { id: 0, server_index: 40, size: Some(384) }));
        let asked = fs::read_to_string(log).unwrap();
        let count = |what: &str| asked.lines().filter(|line| line.contains(what)).count();
        assert_eq!((count("npu-smi"), count("-ip"), count("-link")), (1, 0, 16), "{asked}");
    }

    #[tokio::test]
    async fn what_the_library_cannot_say_tools_are_asked_for() {
        for switch in ["OLD", "REFUSE"] {
            let mut node = Node::with_library(switch);
            let report = node.scan_all(&node.tools()).await;
            let mut expected = devices_a3();
            expected[7].health = Health::Faulty("Alarm".into());
            assert_eq!((report.devices, report.findings), (expected, vec![]), "{switch}");
        }
    }

    #[tokio::test]
    async fn a_library_that_cannot_be_used_leaves_everything_to_tools() {
        for switch in ["SILENT", "noise", "HANG"] {
            let mut node = match switch {
                "noise" => {
                    let node = Node::of(Profile::AscendA316);
                    fs::write(node.library(), "noise").unwrap();
                    node
                }
                switch => Node::with_library(switch),
            };
            node.ascend.library.limit = Duration::from_millis(500);
            let reason = match switch {
                "SILENT" => "device-not-ready",
                "noise" => "library-unusable",
                _ => "library-hangs",
            };
            // Also when the first call still hangs.
            for second in [0, 1] {
                let report = node.look_at(&node.tools(), second).await;
                assert_eq!(reasons(&report), [(reason, "libdcmi.so")]);
                assert_eq!(report.devices, devices_a3());
            }
        }
    }
}
