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

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

const FREE: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

fn put(port: &Path, slot: usize, gid: &str) {
    fs::write(port.join(format!("gids/{slot}")), format!("{gid}\n")).unwrap();
    fs::write(port.join(format!("gid_attrs/types/{slot}")), "RoCE v2\n").unwrap();
    fs::write(port.join(format!("gid_attrs/ndevs/{slot}")), "eth_rdma0\n").unwrap();
}

fn address(last: u8) -> String {
    format!("0000:0000:0000:0000:0000:ffff:0a28:00{last:02x}")
}

#[test]
fn a_table_is_read_again_when_the_state_changes_or_time_has_passed() {
    let (folder, host) = h100(0);
    let port = folder.path().join("sys/class/infiniband/mlx5_0/ports/1");
    let mut rdma = Rdma::default();
    let mut gid = |at| rdma.scan(&host, second(at)).0[0].gid.clone().unwrap().1;
    assert_eq!(gid(0), address(1));
    put(&port, 3, &address(7));
    assert_eq!(gid(59), address(1));
    assert_eq!(nics(&host).0[0].gid, Some((3, address(7))));
    assert_eq!(gid(60), address(7));
    put(&port, 3, &address(8));
    fs::write(port.join("state"), "1: DOWN\n").unwrap();
    assert_eq!(gid(61), address(8));
    // A clock that was set back makes nothing new for ever.
    put(&port, 3, &address(9));
    assert_eq!(gid(-1000), address(9));
}

#[test]
fn a_port_without_an_address_is_read_until_it_has_one() {
    let (folder, host) = h100(0);
    let port = folder.path().join("sys/class/infiniband/mlx5_0/ports/1");
    for slot in 0..4 {
        put(&port, slot, FREE);
    }
    let mut rdma = Rdma::default();
    assert_eq!(rdma.scan(&host, second(0)).0[0].gid, None);
    put(&port, 2, &address(1));
    assert_eq!(rdma.scan(&host, second(1)).0[0].gid, Some((2, address(1))));
}

#[test]
fn cards_that_are_gone_are_forgotten() {
    let (folder, host) = h100(0);
    let mut rdma = Rdma::default();
    rdma.scan(&host, second(0));
    assert_eq!(rdma.tables.len(), 8);
    fs::remove_file(folder.path().join("sys/class/infiniband/mlx5_0")).unwrap();
    assert_eq!((rdma.scan(&host, second(1)).0.len(), rdma.tables.len()), (7, 7));
}

#[test]
fn a_gap_in_the_table_is_no_end_and_a_long_one_is() {
    let (folder, host) = h100(0);
    let port = folder.path().join("sys/class/infiniband/mlx5_0/ports/1");
    for slot in 4..256 {
        put(&port, slot, FREE);
    }
    put(&port, 4 + EMPTY, &address(1));
    assert_eq!(nics(&host).0[0].gid.as_ref().unwrap().0, 3);
    put(&port, 4 + EMPTY - 1, &address(2));
    assert_eq!(nics(&host).0[0].gid.as_ref().unwrap().0, 4 + EMPTY as u32);
}

#[test]
fn full_tables_of_eight_cards_are_read_once() {
    let (folder, host) = h100(0);
    for card in 0..8 {
        let port = folder.path().join(format!("sys/class/infiniband/mlx5_{card}/ports/1"));
        for slot in 0..256 {
            put(&port, slot, &address(slot as u8));
        }
    }
    let timed = |what: &mut dyn FnMut()| {
        let began = std::time::Instant::now();
        what();
        began.elapsed()
    };
    let mut rdma = Rdma::default();
    let mut seen = Vec::new();
    let first = timed(&mut || seen.push(rdma.scan(&host, second(0))));
    // A later look finds the same though nothing but the port's own files is there to be read.
    for card in 0..8 {
        let port = folder.path().join(format!("sys/class/infiniband/mlx5_{card}/ports/1"));
        fs::remove_dir_all(port.join("gids")).unwrap();
        fs::remove_dir_all(port.join("gid_attrs/types")).unwrap();
    }
    let later = timed(&mut || seen.push(rdma.scan(&host, second(5))));
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].0.iter().all(|nic| nic.gid == Some((255, address(255)))));
    let files = timed(&mut || {
        for card in 0..8 {
            let _state = host.read(&format!("/sys/class/infiniband/mlx5_{card}/ports/1/state"));
        }
    });
    eprintln!("8 cards with 256 GIDs: first {first:?}, later {later:?}, 8 files {files:?}");
}
