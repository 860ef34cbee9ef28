use std::fs;
use std::os::unix::fs::symlink;

use muster_sandbox::hardware::Profile;

use super::*;

fn h100(index: u32) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    Profile::NvidiaH1008.lay_out(folder.path(), index).unwrap();
    let host = Host::at(folder.path());
    (folder, host)
}

fn expected(card: u8) -> Nic {
    let buses = ["1a", "2c", "3c", "5f", "9c", "ad", "bc", "dd"];
    Nic {
        name: format!("mlx5_{card}"),
        port: 1,
        pci: Some(format!("0000:{}:00.0", buses[usize::from(card)]).parse().unwrap()),
        numa: Some(u32::from(card / 4)),
        netdev: Some(format!("eth_rdma{card}")),
        state: if card == 5 { PortState::Down } else { PortState::Up },
        link_layer: "Ethernet".into(),
        rate: Some(400),
        gid: Some((3, format!("0000:0000:0000:0000:0000:ffff:0a28:{card:02x}01"))),
        ip: Some([10, 40, card, 1].into()),
    }
}

#[test]
fn every_card_has_its_port_its_gid_and_its_address() {
    let (_folder, host) = h100(0);
    let (nics, findings) = nics(&host);
    assert_eq!(nics, (0..8).map(expected).collect::<Vec<_>>());
    let message = "the port has no link (1: DOWN, 3: Disabled); look at its cable and switch";
    assert_eq!(findings, [Finding::new("link-down", "mlx5_5/1", message)]);
}

#[test]
fn infiniband_uses_its_first_gid_and_the_interface_of_the_function() {
    let (folder, host) = h100(0);
    let card = folder.path().join("sys/class/infiniband/mlx5_2");
    fs::write(card.join("ports/1/link_layer"), "InfiniBand\n").unwrap();
    fs::remove_dir_all(card.join("ports/1/gid_attrs/ndevs")).unwrap();
    fs::create_dir_all(card.join("device/net/ibs2")).unwrap();
    let (nics, _) = nics(&host);
    let link_local = "fe80:0000:0000:0000:0e42:a1ff:fe00:0003".to_owned();
    let expected = Nic {
        link_layer: "InfiniBand".into(),
        netdev: Some("ibs2".into()),
        gid: Some((0, link_local)),
        ip: None,
        ..expected(2)
    };
    assert_eq!(nics[2], expected);
}

#[test]
fn ports_of_one_function_are_told_apart() {
    let (folder, host) = h100(0);
    let card = folder.path().join("sys/class/infiniband/mlx5_0");
    fs::remove_dir_all(card.join("ports/1/gid_attrs")).unwrap();
    for (number, name) in ["left", "right"].into_iter().enumerate() {
        fs::create_dir_all(card.join("device/net").join(name)).unwrap();
        fs::write(card.join("device/net").join(name).join("dev_port"), number.to_string()).unwrap();
    }
    fs::create_dir_all(card.join("ports/2")).unwrap();
    fs::write(card.join("ports/2/state"), "4: ACTIVE\n").unwrap();
    let (nics, _) = nics(&host);
    let seen: Vec<_> = nics.iter().take(2).map(|nic| (nic.port, nic.netdev.as_deref())).collect();
    assert_eq!(seen, [(1, Some("left")), (2, Some("right"))]);
}

#[test]
fn a_bad_card_does_not_hide_the_others() {
    let (folder, host) = h100(0);
    let class = folder.path().join("sys/class/infiniband");
    fs::write(class.join("mlx5_0/ports/1/state"), "\u{1b}[31mon fire").unwrap();
    fs::write(class.join("mlx5_1/ports/1/rate"), "x".repeat(crate::host::SMALL + 1)).unwrap();
    fs::remove_file(class.join("mlx5_3")).unwrap();
    symlink("nowhere", class.join("mlx5_3")).unwrap();
    fs::create_dir_all(class.join("rxe 0")).unwrap();
    // A card in software, and a switch.
    fs::create_dir_all(class.join("siw0/ports/1")).unwrap();
    fs::write(class.join("siw0/ports/1/state"), "4: ACTIVE").unwrap();
    fs::create_dir_all(class.join("sw/ports/1")).unwrap();
    fs::write(class.join("sw/node_type"), "2: switch").unwrap();
    let (nics, findings) = nics(&host);
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(
        names,
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "siw0"]
    );
    assert_eq!((nics[0].state, nics[1].rate, nics[7].pci), (PortState::Unknown, None, None));
    let kinds: Vec<_> = findings.iter().map(|f| (f.reason, f.subject.as_str())).collect();
    let expected = [
        ("malformed", "mlx5_0/1"),
        ("link-down", "mlx5_5/1"),
        ("malformed", "/sys/class/infiniband"),
    ];
    assert_eq!(kinds, expected);
    assert!(findings.iter().all(|f| !f.message.contains('\u{1b}')), "{findings:?}");
}

#[test]
fn a_host_without_cards_has_none() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(nics(&Host::at(folder.path())), (vec![], vec![]));
}
