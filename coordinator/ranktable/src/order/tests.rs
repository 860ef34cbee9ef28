use proptest::prelude::*;

use super::*;
use crate::number::Numbering;
use crate::pod::Pod;
use crate::render::Request;
use crate::table::Table;
use crate::template::{ConfigMap, TableTemplate};

/// (pod, server, devices, labels)
type Given<'a> = (&'a str, &'a str, &'a [&'a str], &'a [(&'a str, &'a str)]);

fn pod((name, server, devices, labels): &Given<'_>) -> Pod {
    let devices: Vec<_> = devices.iter().map(|id| serde_json::json!({"device_id": id})).collect();
    let text = serde_json::json!({"pod_name": name, "server_id": server, "devices": devices});
    Pod {
        name: (*name).into(),
        annotations: [(muster_proto::annotation::KEY.to_owned(), text.to_string())].into(),
        labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        ..Pod::default()
    }
}

fn template(stability: &str) -> TableTemplate {
    let data = [("ranktable-template", "{{ toJson .Servers }}"), ("rank-stability", stability)];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    TableTemplate::read(&ConfigMap { name: "t".into(), data, ..ConfigMap::default() }, None)
        .unwrap()
}

/// `server/device` in the order of ranks, after a look at the table's own order.
fn ranks(table: &Table) -> Vec<String> {
    let mut seats: Vec<(u32, String)> = Vec::new();
    for server in &table.servers {
        assert!(
            server.devices.is_sorted_by_key(|device| device.rank_id.number()),
            "devices stand by rank"
        );
        for device in &server.devices {
            seats.push((
                device.rank_id.number(),
                format!("{}/{}", server.server_id, device.device_id),
            ));
        }
    }
    seats.sort();
    assert!(
        seats.iter().map(|(rank, _)| *rank).eq(0..u32::try_from(seats.len()).unwrap()),
        "ranks are 0..n"
    );
    seats.into_iter().map(|(_, seat)| seat).collect()
}

fn ordered(order: Order, pods: &[Given<'_>], topology: Option<&Topology>) -> Vec<String> {
    let mut pods: Vec<Pod> = pods.iter().map(pod).collect();
    let request = Request { order: Some(order), topology, ..Request::default() };
    let forth = ranks(&template("recount").assemble(&pods, &request).unwrap());
    pods.reverse();
    assert_eq!(
        forth,
        ranks(&template("recount").assemble(&pods, &request).unwrap()),
        "in whatever order they come"
    );
    forth
}

const SERVING: [&str; 3] = [
    "modelserving.volcano.sh/role",
    "modelserving.volcano.sh/role-id",
    "modelserving.volcano.sh/entry",
];

#[test]
fn seed_compares_texts_and_numeric_compares_numbers() {
    let pods: [Given<'_>; 2] =
        [("a", "10.0.0.9", &["2", "10"], &[]), ("b", "10.0.0.10", &["1", "gpu", "0"], &[])];
    let seed = ["10.0.0.10/0", "10.0.0.10/1", "10.0.0.10/gpu", "10.0.0.9/10", "10.0.0.9/2"];
    assert_eq!(ordered(Order::Lexical, &pods, None), seed);
    let numeric = ["10.0.0.10/0", "10.0.0.10/1", "10.0.0.10/gpu", "10.0.0.9/2", "10.0.0.9/10"];
    assert_eq!(ordered(Order::Numeric, &pods, None), numeric);
}

#[test]
fn pod_begins_with_the_entry_and_follows_roles_and_numbers() {
    let [role, id, entry] = SERVING;
    let pods: [Given<'_>; 5] = [
        ("m-0-decode-0-10", "s1", &["0"], &[(role, "decode"), (id, "decode-0")]),
        ("m-0-decode-0-2", "s2", &["10", "9"], &[(role, "decode"), (id, "decode-0")]),
        ("m-0-decode-0-0", "s9", &["3"], &[(role, "decode"), (id, "decode-0"), (entry, "true")]),
        ("m-0-prefill-0-0", "s1", &["7"], &[(role, "prefill"), (id, "prefill-0"), (entry, "true")]),
        ("m-0-aux-0-0", "s0", &["0"], &[(role, "aux"), (id, "aux-0")]),
    ];
    let expected = ["s9/3", "s2/9", "s2/10", "s1/0", "s1/7", "s0/0"];
    assert_eq!(ordered(Order::Pod, &pods, None), expected);
}

#[test]
fn pod_numbers_the_pods_of_a_shared_server_pod_by_pod() {
    let pods: [Given<'_>; 3] =
        [("w-0", "a", &["4"], &[]), ("w-1", "b", &["0"], &[]), ("w-2", "a", &["0"], &[])];
    assert_eq!(ordered(Order::Pod, &pods, None), ["a/4", "b/0", "a/0"]);
}

#[test]
fn topology_puts_neighbours_together() {
    let place = |pod: Option<&str>, path: &[&str], devices: &[(&str, u32)]| Place {
        super_pod: pod.map(str::to_owned),
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        devices: devices.iter().map(|(id, at)| ((*id).to_owned(), *at)).collect(),
    };
    let servers = [
        ("a", place(Some("10"), &["leaf-1"], &[])),
        ("b", place(Some("2"), &["9"], &[("0", 1), ("1", 0)])),
        ("c", place(Some("2"), &["10"], &[])),
        ("d", place(None, &["leaf-0"], &[])),
    ];
    let topology = Topology { servers: servers.map(|(id, place)| (id.to_owned(), place)).into() };
    let pods: [Given<'_>; 5] = [
        ("p-0", "e", &["0"], &[]),
        ("p-1", "d", &["0"], &[]),
        ("p-2", "c", &["0"], &[]),
        ("p-3", "b", &["0", "1"], &[]),
        ("p-4", "a", &["10", "2"], &[]),
    ];
    let expected = ["b/1", "b/0", "c/0", "a/2", "a/10", "d/0", "e/0"];
    assert_eq!(ordered(Order::Topology, &pods, Some(&topology)), expected);
    assert_eq!(ordered(Order::Topology, &pods, None)[0], "a/2");
}

#[test]
fn words_are_read_as_they_are_written() {
    for order in [Order::Lexical, Order::Numeric, Order::Pod, Order::Topology] {
        assert_eq!(Order::parse(order.as_str()), Some(order));
    }
    assert_eq!(Order::parse("Lexical"), None);
    assert_eq!(Order::parse("seed"), Some(Order::Lexical), "as it was called");
    for (left, right) in
        [("2", "10"), ("9", "a"), ("01", "1"), ("1", "02"), ("a", "b"), ("", "a"), ("0", "")]
    {
        assert_eq!(numeric(left, right), Ordering::Less, "{left} {right}");
    }
}

fn table(pods: &[Pod], order: Order, previous: Option<&Numbering>) -> Table {
    let request = Request { order: Some(order), previous, ..Request::default() };
    template("keep").assemble(pods, &request).unwrap()
}

#[test]
fn survivors_keep_their_ranks() {
    let pods = |given: &[Given<'_>]| given.iter().map(pod).collect::<Vec<_>>();
    let before = pods(&[
        ("w-0", "a", &["0", "1"], &[]),
        ("w-1", "b", &["0", "1"], &[]),
        ("w-2", "c", &["0", "1"], &[]),
    ]);
    let first = table(&before, Order::Lexical, None);
    let replaced = pods(&[
        ("w-0", "a", &["0", "1"], &[]),
        ("w-1", "z", &["0", "1"], &[]),
        ("w-2", "c", &["0", "1"], &[]),
    ]);
    let second = table(&replaced, Order::Lexical, Some(&first.numbering()));
    assert_eq!(ranks(&second), ["a/0", "a/1", "z/0", "z/1", "c/0", "c/1"]);
    let smaller = pods(&[("w-1", "z", &["0", "1"], &[]), ("w-2", "c", &["0", "1"], &[])]);
    let third = table(&smaller, Order::Lexical, Some(&second.numbering()));
    assert_eq!(ranks(&third), ["c/0", "c/1", "z/0", "z/1"]);
}

fn groups() -> impl Strategy<Value = Vec<Pod>> {
    let seat = (0..6u8, 0..20u8);
    prop::collection::btree_set(seat, 1..40).prop_map(|seats| {
        let mut pods: BTreeMap<(u8, u8), Vec<String>> = BTreeMap::new();
        for (server, device) in seats {
            pods.entry((server, device % 2)).or_default().push(device.to_string());
        }
        pods.iter()
            .map(|((server, half), devices)| {
                let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
                pod(&(&format!("w-{server}-{half}"), &format!("10.0.0.{server}"), &devices, &[]))
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranks_are_a_bijection_whatever_the_order_of_pods(pods in groups(), seed in any::<u64>()) {
        let mut shuffled = pods.clone();
        shuffled.sort_by_key(|pod| {
            pod.name.bytes().fold(seed, |hash, byte| hash.rotate_left(7).wrapping_mul(31) ^ u64::from(byte))
        });
        for order in [Order::Lexical, Order::Numeric, Order::Pod, Order::Topology] {
            let (one, other) = (table(&pods, order, None), table(&shuffled, order, None));
            ranks(&one);
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn whoever_survives_within_range_keeps_its_rank(before in groups(), after in groups()) {
        let first = table(&before, Order::Numeric, None);
        let numbering = first.numbering();
        prop_assert_eq!(numbering.len(), first.total_devices);
        let second = table(&after, Order::Numeric, Some(&numbering));
        ranks(&second);
        for server in &second.servers {
            for device in &server.devices {
                match numbering.rank(&server.server_id, &device.device_id) {
                    Some(rank) if (rank as usize) < second.total_devices => {
                        prop_assert_eq!(device.rank_id.number(), rank);
                    }
                    _ => {}
                }
            }
        }
    }
}
