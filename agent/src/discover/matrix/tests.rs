use std::time::Duration;

use muster_proto::device::{Link, Mig, Vendor};
use muster_sandbox::hardware::{Profile, Quirks};
use proptest::prelude::*;

use super::*;
use crate::discover::{nvidia::Nvidia, rdma, topology};
use crate::host::Host;
use crate::tool::Tools;

async fn h100() -> Inventory {
    let folder = tempfile::tempdir().unwrap();
    Profile::NvidiaH1008.lay_out_with(folder.path(), 0, Quirks::default()).unwrap();
    let host = Host::at(folder.path());
    let tools = Tools::new(host.clone(), Duration::from_secs(30), 4);
    let report = Nvidia::new().scan_all(&host, &tools, jiff::Timestamp::UNIX_EPOCH).await;
    let mut inventory = Inventory {
        devices: report.devices,
        links: report.links,
        nics: rdma::nics(&host).0,
        ..Inventory::default()
    };
    topology::fill(&host, &mut inventory);
    inventory
}

#[tokio::test]
async fn an_h100_node_as_a_matrix() {
    assert_eq!(matrix(&h100().await), include_str!("h100_matrix.txt"));
}

#[tokio::test]
async fn an_h100_node_as_a_table() {
    assert_eq!(table(&h100().await), include_str!("h100_table.txt"));
}

#[test]
fn a_super_pod_s_devices_have_their_own_column_and_the_line_fits() {
    let mut inventory = Inventory::default();
    for id in 0..2 {
        let mut device = Device::new(Vendor::Ascend, id, "/dev/davinci0");
        device.model = "Ascend910_9391 \u{1b}[31mwith quite a long name of its own".into();
        device.health = Health::Degraded("\u{1b}]0;x\u{7}warm\n".into());
        device.super_device_id = Some(u32::MAX - id);
        device.ip = Some("fd00:1234:5678::1".parse().unwrap());
        device.pci = Some("0000:c1:00.0".parse().unwrap());
        inventory.devices.push(device);
    }
    inventory.links = vec![Link { a: End::Npu(0), b: End::Npu(1), join: Join::Sio }];
    let expected = "\
ID    MODEL                      HEALTH    PORT  ADDRESS            PCI           NUMA  SUPER-DEVICE
NPU0  Ascend910_9391 with quit…  degraded  -     fd00:1234:5678::1  0000:c1:00.0  -     4294967295
NPU1  Ascend910_9391 with quit…  degraded  -     fd00:1234:5678::1  0000:c1:00.0  -     4294967294

NPU0 is degraded: warm
NPU1 is degraded: warm
";
    assert_eq!(table(&inventory), expected);
    assert!(expected.lines().all(|line| line.chars().count() <= WIDTH));
    let expected = "      NPU0  NPU1  CPU Affinity  NUMA Affinity
NPU0  X     SIO   -             -
NPU1  SIO   X     -             -

Legend:
  X        itself
  SIO      the other die of one package
";
    assert_eq!(matrix(&inventory), expected);
}

#[test]
fn nothing_is_shown_as_nothing() {
    assert_eq!(table(&Inventory::default()), "no devices\n");
    assert_eq!(matrix(&Inventory::default()), "");
}

proptest! {
    #[test]
    fn no_text_of_a_driver_reaches_the_terminal_raw(text in "(?s).{0,60}", esc in "\u{1b}\\[[0-9;]{0,3}[A-Za-z]") {
        let hostile = format!("{esc}{text}");
        let mut device = Device::new(Vendor::Nvidia, 0, "");
        device.model = hostile.clone();
        device.uuid = Some(hostile.clone());
        device.cpus = Some(hostile.clone());
        device.health = Health::Faulty(hostile.clone());
        device.mig = vec![Mig { uuid: hostile.clone(), profile: hostile.clone() }];
        let nic = Nic {
            name: hostile.clone(),
            port: 2,
            pci: None,
            numa: None,
            netdev: Some(hostile),
            state: PortState::Up,
            link_layer: String::new(),
            rate: None,
            gid: None,
            ip: None,
        };
        let inventory =
            Inventory { devices: vec![device], nics: vec![nic], ..Inventory::default() };
        let (table, matrix) = (table(&inventory), matrix(&inventory));
        for said in [&table, &matrix] {
            prop_assert!(said.chars().all(|c| c == '\n' || !c.is_control()));
        }
        prop_assert!(table.lines().all(|line| line.chars().count() <= WIDTH));
        prop_assert_eq!(table.lines().count(), 7);
    }
}
