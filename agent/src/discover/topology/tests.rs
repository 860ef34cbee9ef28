use std::path::PathBuf;

use muster_sandbox::hardware::{Profile, Quirks};

use super::*;
use crate::discover::{nvidia::Nvidia, rdma};

fn h100(quirks: Quirks) -> Inventory {
    let folder = tempfile::tempdir().unwrap();
    Profile::NvidiaH1008.lay_out_with(folder.path(), 0, quirks).unwrap();
    let host = Host::at(folder.path());
    let report = Nvidia::new().scan_files(&host);
    let mut inventory =
        Inventory { devices: report.devices, nics: rdma::nics(&host).0, ..Inventory::default() };
    fill(&host, &mut inventory);
    inventory
}

fn gpu(id: u32) -> End {
    End::Gpu(id)
}

#[test]
fn functions_that_have_been_read_are_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    Profile::NvidiaH1008.lay_out_with(folder.path(), 0, Quirks::default()).unwrap();
    let host = Host::at(folder.path());
    let scan = pci::scan(&host, &[0x10de, 0x15b3]);
    let devices = Nvidia::new().scan_files(&host).devices;
    let mut inventory = Inventory { devices, nics: rdma::nics(&host).0, ..Inventory::default() };
    std::fs::remove_dir_all(folder.path().join("sys")).unwrap();
    fill_with(&host, &mut inventory, &scan.functions);
    assert_eq!(inventory, h100(Quirks::default()));
}

#[test]
fn every_pair_has_a_join_and_every_gpu_its_own_nic() {
    let inventory = h100(Quirks::default());
    assert_eq!(inventory.links.len(), 16 * 15 / 2);
    let board = |end| match end {
        End::Npu(n) | End::Gpu(n) | End::Nic(n) => n,
    };
    for Link { a, b, join } in inventory.links.iter().copied() {
        let (a, b) = (board(a), board(b));
        let expected = match (a, b) {
            _ if a == b => Join::Pix,
            _ if a / 4 == b / 4 => Join::Node,
            _ => Join::Sys,
        };
        assert_eq!(join, expected, "{a} {b}");
    }
    for (device, id) in inventory.devices.iter().zip(0u8..) {
        let port = if id == 5 { PortState::Down } else { PortState::Up };
        let seen = (device.nic.as_deref(), device.ip, device.port);
        let name = format!("mlx5_{id}");
        assert_eq!(seen, (Some(name.as_str()), Some([10, 40, id, 1].into()), port));
    }
}

#[test]
fn an_unknown_numa_node_changes_no_nic() {
    let quirks = Quirks { unknown_numa: true, swapped_minors: true, ..Quirks::default() };
    let inventory = h100(quirks);
    assert_eq!(inventory.devices[7].nic.as_deref(), Some("mlx5_7"));
    assert_eq!(inventory.join(gpu(7), End::Nic(7)), Join::Pix);
    assert_eq!(inventory.join(gpu(0), gpu(7)), Join::Sys);
}

#[test]
fn filling_twice_is_filling_once() {
    let folder = tempfile::tempdir().unwrap();
    Profile::NvidiaH1008.lay_out(folder.path(), 0).unwrap();
    let once = h100(Quirks::default());
    let mut twice = once.clone();
    fill(&Host::at(folder.path()), &mut twice);
    assert_eq!(twice, once);
}

#[test]
fn a_vendor_s_link_stays() {
    let folder = tempfile::tempdir().unwrap();
    Profile::NvidiaH1008.lay_out(folder.path(), 0).unwrap();
    let mut inventory = h100(Quirks::default());
    let link = |b, join| Link { a: gpu(0), b: gpu(b), join };
    inventory.links = vec![link(1, Join::NvLink(18)), link(2, Join::Na)];
    fill(&Host::at(folder.path()), &mut inventory);
    assert_eq!(inventory.join(gpu(0), gpu(1)), Join::NvLink(18));
    assert_eq!(inventory.join(gpu(0), gpu(2)), Join::Node);
    assert_eq!(inventory.links.len(), 16 * 15 / 2);
}

/// GPUs and NICs at these places below `/sys/devices`.
fn invented(gpus: &[&str], nics: &[&str]) -> Inventory {
    let mut functions = BTreeMap::new();
    let mut place = |path: &str| {
        let address: PciAddress = path.rsplit('/').next().unwrap().parse().unwrap();
        let function = Function {
            address,
            vendor: 1,
            device: 1,
            class: 0,
            numa: Some(u32::from(path.starts_with("pci0000:8"))),
            cpus: None,
            path: PathBuf::from(format!("/sys/devices/{path}")),
        };
        let numa = function.numa;
        functions.insert(address, function);
        (Some(address), numa)
    };
    let mut inventory = Inventory::default();
    for (path, id) in gpus.iter().zip(0..) {
        let mut device = Device::new(Vendor::Nvidia, id, "");
        (device.pci, device.numa) = place(path);
        inventory.devices.push(device);
    }
    for (path, at) in nics.iter().zip(0u8..) {
        let (pci, numa) = place(path);
        inventory.nics.push(Nic {
            name: format!("mlx5_{at}"),
            port: 1,
            pci,
            numa,
            netdev: None,
            state: PortState::Up,
            link_layer: "Ethernet".into(),
            rate: None,
            gid: None,
            ip: Some([10, 0, 0, at].into()),
        });
    }
    complete(&mut inventory, &functions);
    inventory
}

fn nics(inventory: &Inventory) -> Vec<(Option<&str>, bool)> {
    inventory.devices.iter().map(|gpu| (gpu.nic.as_deref(), gpu.ip.is_some())).collect()
}

#[test]
fn equally_near_nics_are_shared_out() {
    // One switch with two GPUs and two NICs, and a NIC far away.
    let switch = "pci0000:00/0000:00:01.0/0000:01:00.0";
    let [a, b, c, d] =
        [1, 2, 3, 4].map(|n| format!("{switch}/0000:02:0{n}.0/0000:0{}:00.0", n + 2));
    let far = "pci0000:80/0000:80:01.0/0000:81:00.0";
    let inventory = invented(&[&a, &b], &[&c, &d, far]);
    assert_eq!(nics(&inventory), [(Some("mlx5_0"), true), (Some("mlx5_1"), true)]);
    // A NIC at a port of its own is near all of them; the idle one is too far to share the work.
    let inventory = invented(&[&a, &b, &c, &d], &["pci0000:00/0000:00:02.0/0000:20:00.0", far]);
    assert_eq!(nics(&inventory), [(Some("mlx5_0"), true); 4]);
}

#[test]
fn a_nic_across_host_bridges_gives_no_address() {
    let gpus = ["pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:80/0000:80:01.0/0000:81:00.0"];
    let inventory = invented(&gpus, &["pci0000:10/0000:10:01.0/0000:11:00.0"]);
    assert_eq!(inventory.join(gpu(0), End::Nic(0)), Join::Node);
    assert_eq!(nics(&inventory), [(Some("mlx5_0"), false); 2]);
    assert_eq!(nics(&invented(&gpus, &[])), [(None, false); 2]);
}

#[test]
fn an_npu_keeps_its_own_address() {
    let mut npu = Device::new(Vendor::Ascend, 0, "/dev/davinci0");
    npu.ip = Some([10, 20, 0, 2].into());
    npu.port = PortState::Up;
    let mut inventory = Inventory { devices: vec![npu.clone()], ..Inventory::default() };
    fill(&Host::at("/nonexistent"), &mut inventory);
    assert_eq!(inventory.devices, [npu]);
}
