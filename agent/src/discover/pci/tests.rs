use std::fs;

use muster_sandbox::hardware::{Profile, Quirks};
use proptest::prelude::*;

use super::*;

fn h100(quirks: Quirks) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    Profile::NvidiaH1008.lay_out_with(folder.path(), 0, quirks).unwrap();
    let host = Host::at(folder.path());
    (folder, host)
}

fn at(path: &str, numa: Option<u32>) -> Function {
    let (_, name) = path.rsplit_once('/').unwrap();
    Function {
        address: name.parse().unwrap(),
        vendor: 0x10de,
        device: 1,
        class: 0x03_0200,
        numa,
        cpus: None,
        path: PathBuf::from(format!("/sys/devices/{path}")),
    }
}

#[test]
fn a_function_is_read_with_its_real_place() {
    let (_folder, host) = h100(Quirks::default());
    let (all, findings) = functions(&host);
    assert_eq!((all.len(), findings), (8 + 8 + 4, vec![]));
    let first = all.iter().find(|function| function.class == 0x03_0200).unwrap();
    let expected = Function {
        address: "0000:18:00.0".parse().unwrap(),
        vendor: 0x10de,
        device: 0x2330,
        class: 0x03_0200,
        numa: Some(0),
        cpus: Some("0-55,112-167".into()),
        path: "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0".into(),
    };
    assert_eq!(first, &expected);
    assert_eq!(function(&host, expected.address), Some(expected));
    let (gpus, _) = matching(&host, |vendor, class| (vendor, class >> 8) == (0x10de, 0x0302));
    assert_eq!(gpus.len(), 8);
}

#[test]
fn a_scan_has_the_functions_of_its_makers() {
    let (_folder, host) = h100(Quirks::default());
    let Scan { functions, findings } = scan(&host, &[0x15b3, 0x19e5]);
    assert_eq!((functions.len(), findings.len()), (8, 0));
    assert!(functions.iter().all(|function| function.vendor == 0x15b3));
    assert_eq!(scan(&host, &[0x10de, 0x15b3]).functions, super::functions(&host).0);
}

#[test]
fn on_a_real_board_a_gpu_is_next_to_its_own_nic() {
    let (_folder, host) = h100(Quirks::default());
    let of = |class| matching(&host, move |_, its| its == class).0;
    let (gpus, nics) = (of(0x03_0200), of(0x02_0000));
    for (g, gpu) in gpus.iter().enumerate() {
        for (n, nic) in nics.iter().enumerate() {
            let expected = match (g, n) {
                _ if g == n => Join::Pix,
                _ if g / 4 == n / 4 => Join::Node,
                _ => Join::Sys,
            };
            assert_eq!(distance(gpu, nic), expected, "{g} {n}");
            assert_eq!(distance(nic, gpu), expected, "{n} {g}");
        }
    }
}

#[test]
fn distances_count_switches_not_ports() {
    // Root pci0000:80, root port 80:01.0, a switch 81:00.0 with another switch behind its port 82:00.0.
    let switch = "pci0000:80/0000:80:01.0/0000:81:00.0";
    let near = at(&format!("{switch}/0000:82:04.0/0000:90:00.0"), Some(1));
    let sibling = at(&format!("{switch}/0000:82:05.0/0000:91:00.0"), Some(1));
    let behind =
        at(&format!("{switch}/0000:82:00.0/0000:83:00.0/0000:84:00.0/0000:85:00.0"), Some(1));
    let two_ports = at(&format!("{switch}/0000:82:05.0/0000:91:00.1"), Some(1));
    let other_port = at("pci0000:80/0000:80:03.0/0000:a0:00.0", Some(1));
    let integrated = at("pci0000:80/0000:80:1f.0", Some(1));
    let other_root = at("pci0000:c0/0000:c0:01.0/0000:c1:00.0", Some(1));
    let other_socket = at("pci0000:00/0000:00:01.0/0000:01:00.0", Some(0));
    let platform = at("platform/soc/pci0000:80/0000:80:01.0/0000:81:00.0", Some(1));
    for (a, b, join) in [
        (&near, &sibling, Join::Pix),
        (&sibling, &two_ports, Join::Pix),
        (&near, &behind, Join::Pxb),
        (&near, &other_port, Join::Phb),
        (&near, &integrated, Join::Phb),
        (&near, &other_root, Join::Node),
        (&near, &platform, Join::Node),
        (&near, &other_socket, Join::Sys),
    ] {
        assert_eq!(distance(a, b), join, "{} {}", a.address, b.address);
        assert_eq!(distance(b, a), join, "{} {}", b.address, a.address);
    }
}

#[test]
fn where_no_numa_node_is_told_the_cores_decide() {
    let mut one = at("pci0000:00/0000:00:01.0/0000:01:00.0", None);
    let mut other = at("pci0000:80/0000:80:01.0/0000:81:00.0", Some(0));
    assert_eq!(distance(&one, &other), Join::Sys);
    (one.cpus, other.cpus) = (Some("0-7".into()), Some("0-7".into()));
    assert_eq!(distance(&one, &other), Join::Node);
    other.cpus = Some("8-15".into());
    assert_eq!(distance(&one, &other), Join::Sys);
}

#[test]
fn an_unknown_numa_node_is_none() {
    let (_folder, host) = h100(Quirks { unknown_numa: true, ..Quirks::default() });
    assert_eq!(function(&host, "0000:db:00.0".parse().unwrap()).unwrap().numa, None);
}

#[test]
fn a_bad_function_does_not_hide_the_others() {
    let (folder, host) = h100(Quirks::default());
    let devices = folder.path().join("sys/bus/pci/devices");
    fs::write(devices.join("0000:18:00.0/vendor"), "\u{1b}[31mnonsense").unwrap();
    fs::remove_file(devices.join("0000:2a:00.0/class")).unwrap();
    fs::write(devices.join("0000:3a:00.0/class"), "x".repeat(crate::host::SMALL + 1)).unwrap();
    fs::write(devices.join("README"), "").unwrap();
    let (all, findings) = functions(&host);
    assert_eq!(all.len(), 17);
    let kinds: Vec<_> = findings.iter().map(|f| (f.reason, f.subject.as_str())).collect();
    assert_eq!(kinds, [("malformed", "pci 0000:18:00.0"), ("too-large", "pci 0000:3a:00.0")]);
}

#[test]
fn a_host_without_pci_has_none() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(functions(&Host::at(folder.path())), (vec![], vec![]));
}

proptest! {
    #[test]
    fn distance_is_the_same_both_ways(
        a in "(/[a-z0-9:.]{0,8}|/pci0:0){0,6}", b in "(/[a-z0-9:.]{0,8}|/pci0:0){0,6}",
    ) {
        let mut one = at("pci0000:00/0000:01:00.0", None);
        let mut other = one.clone();
        (one.path, other.path) = (a.into(), b.into());
        prop_assert_eq!(distance(&one, &other), distance(&other, &one));
    }
}
