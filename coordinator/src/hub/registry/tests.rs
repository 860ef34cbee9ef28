use muster_proto::device::{Device, Vendor};
use muster_proto::pod::PodRef;

use super::*;

fn hello(node: &str, delivered: Vec<Delivered>) -> Hello {
    let text = str::to_owned;
    Hello {
        protocol: 1,
        node: text(node),
        boot_id: text("b"),
        version: text("1"),
        instance: text("i"),
        inventory: None,
        pods: None,
        delivered,
    }
}

fn pod(uid: &str) -> PodDevices {
    let pod = PodRef { namespace: "ns".into(), name: uid.into(), uid: uid.into() };
    PodDevices { pod, devices: Vec::new() }
}

fn pods(full: bool, upserts: &[&str], gone: &[&str]) -> PodsChanged {
    let gone = gone.iter().map(|uid| (*uid).to_owned()).collect();
    PodsChanged { full, upserts: upserts.iter().map(|uid| pod(uid)).collect(), gone }
}

fn blob(content: &str) -> Arc<Blob> {
    Arc::new(Blob::pack(content.as_bytes()).unwrap())
}

fn delivery(uid: &str, generation: u64, blob: &Blob) -> Delivery {
    let place = Place { pod_uid: uid.into(), volume: "v".into(), file: "f".into() };
    Delivery { place, generation, digest: blob.digest(), mode: 0o644, group: None }
}

fn there(delivery: &Delivery) -> Delivered {
    let Delivery { place, generation, digest, .. } = delivery.clone();
    Delivered { place, generation, digest }
}

fn refused(delivery: &Delivery, reason: &str) -> Ack {
    let outcome = Outcome::Refused { reason: reason.into(), message: String::new() };
    Ack { place: delivery.place.clone(), generation: delivery.generation, outcome }
}

fn delivered(delivery: &Delivery) -> Ack {
    let outcome = Outcome::Delivered(delivery.digest);
    Ack { place: delivery.place.clone(), generation: delivery.generation, outcome }
}

#[test]
fn the_newest_stream_of_a_node_is_the_one_that_is_heard() {
    let mut registry = Registry::default();
    let old = registry.open(hello("n", vec![]), 0).session;
    let new = registry.open(hello("n", vec![]), 1).session;
    let one =
        Inventory { devices: vec![Device::new(Vendor::Ascend, 0, "")], ..Inventory::default() };
    assert!(!registry.set_inventory("n", old, one.clone()));
    assert_eq!(registry.inventory("n"), None);
    assert!(registry.set_inventory("n", new, one.clone()));
    assert!(!registry.set_inventory("n", new, one), "no news");
    assert_eq!(registry.change_pods("n", old, pods(true, &["a"], &[])), Some(false));
    assert!(!registry.close("n", old), "an old stream's end is not the node's");
    assert_eq!(registry.sessions().len(), 1);
    assert!(registry.close("n", new));
    assert_eq!(registry.sessions(), []);
}

#[test]
fn what_a_node_reported_outlives_its_stream() {
    let mut registry = Registry::default();
    let first = registry.open(hello("n", vec![]), 0);
    assert_eq!((first.inventory, first.pods), (None, None));
    let inventory = Inventory { settled: true, ..Inventory::default() };
    registry.set_inventory("n", first.session, inventory.clone());
    assert_eq!(registry.change_pods("n", first.session, pods(true, &["a", "b"], &[])), Some(true));
    assert_eq!(registry.change_pods("n", first.session, pods(false, &["c"], &["a"])), Some(true));
    assert_eq!(registry.change_pods("n", first.session, pods(false, &[], &["a"])), Some(false));
    registry.close("n", first.session);
    let again = registry.open(hello("n", vec![]), 1);
    assert_eq!(again.inventory, Some(inventory_digest(&inventory)));
    assert_eq!(again.pods, Some(pods_digest([&pod("b"), &pod("c")])));
}

#[test]
fn a_table_goes_only_to_the_node_that_has_the_pod() {
    let mut registry = Registry::default();
    let table = blob("t");
    let order = delivery("a", 1, &table);
    let reason = |result: Result<_, Undeliverable>| result.unwrap_err().reason();
    assert_eq!(reason(registry.want("n", order.clone(), table.clone())), "unknown-node");
    let session = registry.open(hello("n", vec![]), 0).session;
    assert_eq!(reason(registry.want("n", order.clone(), table.clone())), "pod-elsewhere");
    let other = registry.open(hello("m", vec![]), 0).session;
    registry.change_pods("m", other, pods(true, &["a"], &[]));
    assert_eq!(reason(registry.want("n", order.clone(), table.clone())), "pod-elsewhere");
    registry.change_pods("n", session, pods(true, &["a"], &[]));
    assert_eq!(reason(registry.want("n", order.clone(), blob("x"))), "other-content");
    let wide = Delivery { mode: 0o4755, ..order.clone() };
    assert_eq!(reason(registry.want("n", wide, table.clone())), "mode");
    let told = registry.want("n", order.clone(), table.clone()).unwrap();
    assert_eq!(told, Some((session, Order::Deliver { delivery: order, blob: table })));
}

#[test]
fn generations_only_grow() {
    let mut registry = Registry::default();
    let session = registry.open(hello("n", vec![]), 0).session;
    registry.change_pods("n", session, pods(true, &["a"], &[]));
    let (old, new) = (blob("old"), blob("new"));
    let mut want = |generation, blob: &Arc<Blob>| {
        let wanted = registry.want("n", delivery("a", generation, blob), blob.clone());
        wanted.map(|told| told.is_some()).map_err(|error| error.reason())
    };
    assert_eq!(want(5, &new), Ok(true));
    assert_eq!(want(5, &new), Ok(true), "said again, it is told again");
    assert_eq!(want(5, &old), Err("older-generation"), "one generation is one content");
    assert_eq!(want(4, &old), Err("older-generation"));
    let newest = delivery("a", 6, &new);
    assert_eq!(want(6, &new), Ok(true));
    registry.ack("n", session, delivered(&newest));
    registry.ack("n", session, delivered(&delivery("a", 5, &new)));
    assert_eq!(registry.tables("n").unwrap().delivered, [there(&newest)]);
    assert_eq!(registry.unwant("n", &newest.place, 5), None, "an older retire");
    assert!(registry.unwant("n", &newest.place, 6).is_some());
    let again = registry.want("n", newest.clone(), new.clone()).unwrap_err();
    assert_eq!(again.reason(), "older-generation", "it was retired");
    assert!(registry.want("n", delivery("a", 7, &new), new).unwrap().is_some());
}

#[test]
fn who_comes_back_gets_what_differs() {
    let table = blob("t");
    let (one, two) = (delivery("a", 2, &table), delivery("b", 2, &table));
    let older = Delivered { generation: 1, ..there(&one) };
    let cases = [
        (vec![], vec!["a", "b"]),
        (vec![there(&one)], vec!["b"]),
        (vec![there(&one), there(&two)], vec![]),
        (vec![older, there(&two)], vec!["a"]),
        (vec![Delivered { digest: Digest::of(b"?"), ..there(&one) }, there(&two)], vec!["a"]),
    ];
    for (has, expected) in cases {
        let mut registry = Registry::default();
        let session = registry.open(hello("n", vec![]), 0).session;
        registry.change_pods("n", session, pods(true, &["a", "b"], &[]));
        registry.close("n", session);
        for order in [&one, &two] {
            let told = registry.want("n", order.clone(), table.clone()).unwrap();
            assert_eq!(told, None, "the agent is away");
        }
        let opened = registry.open(hello("n", has), 1);
        let places: Vec<_> = opened.orders.iter().map(|o| o.place().pod_uid.as_str()).collect();
        assert_eq!(places, expected);
    }
}

#[test]
fn a_retired_table_that_an_agent_still_has_is_retired_when_it_comes_back() {
    let mut registry = Registry::default();
    let table = blob("t");
    let order = delivery("a", 3, &table);
    let session = registry.open(hello("n", vec![]), 0).session;
    registry.change_pods("n", session, pods(true, &["a"], &[]));
    registry.want("n", order.clone(), table).unwrap();
    registry.close("n", session);
    assert_eq!(registry.unwant("n", &order.place, 3), None);
    let opened = registry.open(hello("n", vec![there(&order)]), 1);
    let retire = Order::Retire { place: order.place.clone(), generation: 3 };
    assert_eq!(opened.orders, [retire]);
    let again = registry.open(hello("n", vec![]), 2);
    assert_eq!(again.orders, []);
    // It was being written all the while.
    let retire = Order::Retire { place: order.place.clone(), generation: 3 };
    assert_eq!(registry.ack("n", again.session, delivered(&order)), Some(retire));
}

#[test]
fn a_table_goes_with_its_pod() {
    let mut registry = Registry::default();
    let table = blob("t");
    let session = registry.open(hello("n", vec![]), 0).session;
    registry.change_pods("n", session, pods(true, &["a", "b"], &[]));
    for uid in ["a", "b"] {
        registry.want("n", delivery(uid, 1, &table), table.clone()).unwrap();
    }
    registry.change_pods("n", session, pods(false, &[], &["a"]));
    assert_eq!(registry.tables("n").unwrap().wanted, [delivery("b", 1, &table)]);
    registry.change_pods("n", session, pods(true, &[], &[]));
    assert_eq!(registry.tables("n").unwrap(), Tables::default());
}

#[test]
fn a_content_that_got_lost_is_sent_again_but_not_for_ever() {
    let mut registry = Registry::default();
    let table = blob("t");
    let order = delivery("a", 1, &table);
    let session = registry.open(hello("n", vec![]), 0).session;
    registry.change_pods("n", session, pods(true, &["a"], &[]));
    registry.want("n", order.clone(), table).unwrap();
    for _ in 0..MOST_RETRIES {
        assert!(registry.ack("n", session, refused(&order, "blob-missing")).is_some());
    }
    assert_eq!(registry.ack("n", session, refused(&order, "blob-missing")), None);
    assert_eq!(registry.ack("n", session, refused(&order, "disk-full")), None);
    assert_eq!(registry.tables("n").unwrap().refused[&order.place].reason, "disk-full");
    registry.ack("n", session, delivered(&order));
    assert!(registry.tables("n").unwrap().refused.is_empty());
}

#[test]
fn a_node_is_forgotten_only_without_a_stream() {
    let mut registry = Registry::default();
    let session = registry.open(hello("n", vec![]), 0).session;
    assert!(!registry.forget("n"));
    registry.close("n", session);
    assert!(registry.forget("n"));
    assert!(registry.is_empty());
}
