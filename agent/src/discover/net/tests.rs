use std::fs;

use proptest::prelude::*;

use super::*;

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("proc/1/net");
    fs::create_dir_all(&net).unwrap();
    for (name, text) in files {
        fs::write(net.join(name), text).unwrap();
    }
    let host = Host::at(folder.path());
    (folder, host)
}

fn on(interface: &str, ip: &str) -> HostAddress {
    HostAddress { interface: interface.into(), ip: ip.parse().unwrap() }
}

#[test]
fn a_tree_tells_the_addresses_of_process_one() {
    let (_folder, host) = tree(&[
        ("fib_trie", parse::tests::FIB_TRIE),
        ("route", parse::tests::ROUTE),
        ("if_inet6", parse::tests::INET6),
    ]);
    let expected = vec![on("", "192.168.7.9"), on("bond1", "10.1.2.3"), on("eth0", "2001:db8::7")];
    assert_eq!(addresses(&host), (expected, vec![]));
}

#[test]
fn addresses_of_services_and_pods_are_not_the_node_s() {
    for (interface, expected) in [
        ("eth0", true),
        ("bond1", true),
        ("ib0", true),
        ("br-storage", true),
        ("", true),
        ("docker1", true),
        ("kube-ipvs0", false),
        ("nodelocaldns", false),
        ("dummy0", false),
        ("docker0", false),
        ("cni0", false),
        ("flannel.1", false),
        ("flannel-v6.1", false),
        ("cali0a1b2c3d4e5", false),
        ("veth12ab", false),
        ("virbr0", false),
        ("lxc_health", false),
        ("cilium_host", false),
    ] {
        assert_eq!(own(interface), expected, "{interface}");
    }
    let leaf = |ip: &str| format!("     |-- {ip}\n        /32 host LOCAL\n");
    let trie = ["10.1.2.3", "10.96.0.1", "10.96.0.10", "192.168.7.9", "172.17.0.1"].map(leaf);
    let route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
        eth0\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\n\
        docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\n";
    let inet6 = "20010db8000000000000000000000007 02 40 00 80 eth0\n\
        20010db8000000000000000000000009 03 80 00 80 kube-ipvs0\n";
    let (_folder, host) = tree(&[
        ("fib_trie", &trie.concat()),
        ("route", route),
        ("if_inet6", inet6),
        ("ip_vs", parse::tests::IP_VS),
    ]);
    // A Service on a port of the node has the node's address, and an address of lo has no network.
    let expected = vec![on("", "192.168.7.9"), on("eth0", "10.1.2.3"), on("eth0", "2001:db8::7")];
    assert_eq!(addresses(&host), (expected, vec![]));
}

#[test]
fn what_is_missing_is_no_problem_and_what_is_wrong_is() {
    let (folder, host) = tree(&[]);
    assert_eq!(addresses(&host), (vec![], vec![]));
    fs::create_dir(folder.path().join("proc/1/net/route")).unwrap();
    let (found, findings) = addresses(&host);
    let kinds: Vec<_> = findings.iter().map(|f| (f.reason, f.subject.as_str())).collect();
    assert_eq!((found, kinds), (vec![], vec![("not-regular", "/proc/1/net/route")]));
}

#[test]
fn the_machine_itself_is_asked() {
    let (found, findings) = addresses(&Host::at("/"));
    assert_eq!(findings, []);
    assert!(found.iter().all(|one| outward(one.ip) && !one.interface.is_empty()), "{found:?}");
}

#[test]
fn sources_are_read_and_written() {
    for text in
        ["internal-ip", "interface=eth0", "cidr=10.0.0.0/8", "cidr=fd00::/8", "10.1.2.3", "::1"]
    {
        assert_eq!(text.parse::<ServerIdSource>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "eth0",
        "interface=",
        "interface=a b",
        "interface=../x",
        "cidr=10.0.0.0",
        "cidr=10.0.0.0/33",
        "cidr=x/8",
        "cidr=10.0.0.0/-1",
        "10.1.2",
    ] {
        assert!(text.parse::<ServerIdSource>().is_err(), "{text}");
    }
}

#[test]
fn the_id_is_the_lowest_address_that_was_asked_for() {
    let there = [
        on("eth0", "fd00::1"),
        on("eth0", "10.0.0.9"),
        on("eth0", "10.0.0.10"),
        on("eth1", "10.0.0.8"),
        on("eth2", "fd00::5"),
    ];
    let internal = Some("172.16.0.1".parse().unwrap());
    for (source, expected) in [
        ("internal-ip", "172.16.0.1"),
        ("interface=eth0", "10.0.0.9"),
        ("interface=eth2", "fd00::5"),
        ("cidr=10.0.0.0/8", "10.0.0.8"),
        ("cidr=10.0.0.10/32", "10.0.0.10"),
        ("cidr=0.0.0.0/0", "10.0.0.8"),
        ("cidr=::/0", "fd00::1"),
        ("192.0.2.1", "192.0.2.1"),
    ] {
        let mut shuffled = there.to_vec();
        for _ in 0..there.len() {
            shuffled.rotate_left(1);
            let id = server_id(&source.parse().unwrap(), &shuffled, internal);
            assert_eq!(id, Ok(expected.parse().unwrap()), "{source}");
        }
    }
}

#[test]
fn without_an_id_the_message_says_what_there_is() {
    let there = [on("eth0", "10.0.0.9"), on("", "10.0.0.10")];
    let said = |source: &str, there: &[HostAddress]| {
        server_id(&source.parse().unwrap(), there, None).unwrap_err().to_string()
    };
    assert_eq!(
        said("interface=ib0", &there),
        "no address of the node is interface=ib0; there are 10.0.0.9 on eth0, 10.0.0.10"
    );
    assert_eq!(
        said("cidr=fd00::/8", &[]),
        "no address of the node is cidr=fd00::/8; there are none"
    );
    assert!(said("internal-ip", &there).contains("no InternalIP"));
    let many: Vec<HostAddress> = (0..20).map(|n| on("e", &format!("10.0.0.{n}"))).collect();
    assert!(said("interface=ib0", &many).ends_with("10.0.0.7 on e, 12 more"));
}

proptest! {
    #[test]
    fn no_text_breaks_a_source(text in "(cidr=|interface=)?.{0,40}") {
        if let Ok(source) = text.parse::<ServerIdSource>() {
            prop_assert_eq!(source.to_string().parse(), Ok(source));
        }
    }
}
