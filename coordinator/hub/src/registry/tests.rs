use muster_proto::delivery::Delivered;
use muster_proto::device::{Device, Vendor};
use muster_proto::link::{
    AckOutcome, MOST_PODS, MOST_TABLES, PodsChanged, inventory_digest, pods_digest,
};
use muster_proto::pod::PodRef;

use super::node::MOST_RETRIES;
use super::*;

mod retry;

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

/// What the hub does with a change. Whether it is news; none if there are too many.
fn change(registry: &mut Registry, node: &str, session: u64, change: PodsChanged) -> Option<bool> {
    let pods = Pods::after(registry.pods_before(node, session).as_ref(), change)?;
    Some(registry.set_pods(node, session, pods))
}

fn report(registry: &mut Registry, node: &str, session: u64, inventory: &Inventory) -> bool {
    let digest = inventory_digest(inventory);
    registry.set_inventory(node, session, Arc::new(inventory.clone()), digest)
}

/// A node `n` that has these pods.
fn node_with(uids: &[&str]) -> (Registry, u64) {
    let mut registry = Registry::default();
    let session = registry.open(hello("n", vec![]), 0).session;
    assert_eq!(change(&mut registry, "n", session, pods(true, uids, &[])), Some(true));
    (registry, session)
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
    let outcome = AckOutcome::Refused { reason: reason.into(), message: String::new() };
    Ack { place: delivery.place.clone(), generation: delivery.generation, outcome }
}

fn delivered(delivery: &Delivery) -> Ack {
    let outcome = AckOutcome::Delivered(delivery.digest);
    Ack { place: delivery.place.clone(), generation: delivery.generation, outcome }
}

#[test]
fn the_newest_stream_of_a_node_is_the_one_that_is_heard() {
    let mut registry = Registry::default();
    let old = registry.open(hello("n", vec![]), 0).session;
    let new = registry.open(hello("n", vec![]), 1).session;
    let one =
        Inventory { devices: vec![Device::new(Vendor::Ascend, 0, "")], ..Inventory::default() };
    assert!(!report(&mut registry, "n", old, &one));
    assert_eq!(registry.inventory("n"), None);
    assert!(report(&mut registry, "n", new, &one));
    assert!(!report(&mut registry, "n", new, &one), "no news");
    assert_eq!(change(&mut registry, "n", old, pods(true, &["a"], &[])), Some(false));
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
    report(&mut registry, "n", first.session, &inventory);
    assert_eq!(change(&mut registry, "n", first.session, pods(true, &["a", "b"], &[])), Some(true));
    assert_eq!(change(&mut registry, "n", first.session, pods(false, &["c"], &["a"])), Some(true));
    assert_eq!(change(&mut registry, "n", first.session, pods(false, &[], &["a"])), Some(false));
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
    let reason = |result: Result<_, DeliverError>| result.unwrap_err().reason();
    assert_eq!(reason(registry.set_desired("n", order.clone(), table.clone())), "unknown-node");
    let session = registry.open(hello("n", vec![]), 0).session;
    assert_eq!(reason(registry.set_desired("n", order.clone(), table.clone())), "pod-elsewhere");
    let other = registry.open(hello("m", vec![]), 0).session;
    change(&mut registry, "m", other, pods(true, &["a"], &[]));
    assert_eq!(reason(registry.set_desired("n", order.clone(), table.clone())), "pod-elsewhere");
    change(&mut registry, "n", session, pods(true, &["a"], &[]));
    assert_eq!(reason(registry.set_desired("n", order.clone(), blob("x"))), "other-content");
    let wide = Delivery { mode: 0o4755, ..order.clone() };
    assert_eq!(reason(registry.set_desired("n", wide, table.clone())), "mode");
    let told = registry.set_desired("n", order.clone(), table.clone()).unwrap();
    assert_eq!(told, Some((session, Order::Deliver { delivery: order, blob: table })));
}

#[test]
fn generations_only_grow() {
    let mut registry = Registry::default();
    let session = registry.open(hello("n", vec![]), 0).session;
    change(&mut registry, "n", session, pods(true, &["a"], &[]));
    let (old, new) = (blob("old"), blob("new"));
    let mut set_desired = |generation, blob: &Arc<Blob>| {
        let desired = registry.set_desired("n", delivery("a", generation, blob), blob.clone());
        desired.map(|sent| sent.is_some()).map_err(|error| error.reason())
    };
    assert_eq!(set_desired(5, &new), Ok(true));
    assert_eq!(set_desired(5, &new), Ok(true), "said again, it is told again");
    assert_eq!(set_desired(5, &old), Err("older-generation"), "one generation is one content");
    assert_eq!(set_desired(4, &old), Err("older-generation"));
    let newest = delivery("a", 6, &new);
    assert_eq!(set_desired(6, &new), Ok(true));
    registry.ack("n", session, delivered(&newest));
    registry.ack("n", session, delivered(&delivery("a", 5, &new)));
    assert_eq!(registry.tables("n").unwrap().delivered, [there(&newest)]);
    assert_eq!(registry.clear_desired("n", &newest.place, 5), None, "an older retire");
    assert!(registry.clear_desired("n", &newest.place, 6).is_some());
    let again = registry.set_desired("n", newest.clone(), new.clone()).unwrap_err();
    assert_eq!(again.reason(), "older-generation", "it was retired");
    assert!(registry.set_desired("n", delivery("a", 7, &new), new).unwrap().is_some());
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
        change(&mut registry, "n", session, pods(true, &["a", "b"], &[]));
        registry.close("n", session);
        for order in [&one, &two] {
            let told = registry.set_desired("n", order.clone(), table.clone()).unwrap();
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
    change(&mut registry, "n", session, pods(true, &["a"], &[]));
    registry.set_desired("n", order.clone(), table).unwrap();
    registry.close("n", session);
    assert_eq!(registry.clear_desired("n", &order.place, 3), None);
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
    change(&mut registry, "n", session, pods(true, &["a", "b"], &[]));
    for uid in ["a", "b"] {
        registry.set_desired("n", delivery(uid, 1, &table), table.clone()).unwrap();
    }
    change(&mut registry, "n", session, pods(false, &[], &["a"]));
    assert_eq!(registry.tables("n").unwrap().desired, [delivery("b", 1, &table)]);
    change(&mut registry, "n", session, pods(true, &[], &[]));
    assert_eq!(registry.tables("n").unwrap(), Tables::default());
}

#[test]
fn a_content_that_got_lost_is_sent_again_but_not_for_ever() {
    let mut registry = Registry::default();
    let table = blob("t");
    let order = delivery("a", 1, &table);
    let session = registry.open(hello("n", vec![]), 0).session;
    change(&mut registry, "n", session, pods(true, &["a"], &[]));
    registry.set_desired("n", order.clone(), table).unwrap();
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
fn a_node_that_has_left_is_forgotten_when_its_stream_ends() {
    let mut registry = Registry::default();
    let session = registry.open(hello("n", vec![]), 0).session;
    assert!(!registry.forget("n"));
    assert!(registry.knows("n"), "its agent is still there");
    registry.close("n", session);
    assert!(registry.is_empty());
    let session = registry.open(hello("away", vec![]), 0).session;
    registry.close("away", session);
    assert!(registry.forget("away"));
    assert!(registry.is_empty());
}

#[test]
fn a_node_that_comes_back_is_not_forgotten_when_its_stream_ends() {
    let mut registry = Registry::default();
    registry.open(hello("n", vec![]), 0);
    registry.forget("n");
    let again = registry.open(hello("n", vec![]), 0).session;
    registry.close("n", again);
    assert!(registry.knows("n"));
}

#[test]
fn a_node_that_was_booted_again_says_everything_anew() {
    let mut registry = Registry::default();
    let session = registry.open(hello("n", vec![]), 0).session;
    change(&mut registry, "n", session, pods(true, &["a"], &[]));
    registry.close("n", session);
    let same = registry.open(hello("n", vec![]), 0);
    assert!(same.pods.is_some(), "the same boot");
    registry.close("n", same.session);
    let booted = Hello { boot_id: "another".to_owned(), ..hello("n", vec![]) };
    let opened = registry.open(booted, 0);
    assert_eq!((opened.pods, opened.inventory), (None, None));
}

#[test]
fn an_agent_cannot_fill_the_hubs_memory() {
    let (mut registry, session) = node_with(&["a"]);
    let table = blob("t");
    for number in 0..10u64 {
        let elsewhere = delivery(&format!("invented-{number}"), number % 2, &table);
        registry.ack("n", session, refused(&elsewhere, "io"));
        registry.ack("n", session, delivered(&elsewhere));
        let mut unasked = delivery("a", 0, &table);
        unasked.place.file = format!("file-{number}");
        registry.ack("n", session, refused(&unasked, "io"));
    }
    assert_eq!(registry.tables("n").unwrap(), Tables::default());
    assert_eq!(registry.retry("n", session, 100), []);
    for number in 0..MOST_TABLES + 10 {
        let mut unasked = delivery("a", 1, &table);
        unasked.place.file = format!("file-{number}");
        registry.ack("n", session, delivered(&unasked));
    }
    assert_eq!(registry.tables("n").unwrap().delivered.len(), MOST_TABLES);
}

#[test]
fn tables_of_pods_that_are_not_there_are_not_believed() {
    let (mut registry, session) = node_with(&["a"]);
    let table = blob("t");
    let has = vec![there(&delivery("a", 1, &table)), there(&delivery("invented", 1, &table))];
    let known = registry.pods_before("n", session).unwrap().digest();
    let session = registry.open(hello("n", has.clone()), 1).session;
    assert_eq!(registry.tables("n").unwrap().delivered.len(), 2, "its pods are still to come");
    change(&mut registry, "n", session, pods(true, &["a"], &[]));
    assert_eq!(registry.tables("n").unwrap().delivered, has[..1]);
    registry.open(Hello { pods: Some(known), ..hello("n", has.clone()) }, 2);
    assert_eq!(registry.tables("n").unwrap().delivered, has[..1], "its pods are known");
}

#[test]
fn too_many_pods_are_refused_and_change_nothing() {
    let (mut registry, session) = node_with(&["a"]);
    let uids: Vec<String> = (0..MOST_PODS).map(|number| format!("pod-{number}")).collect();
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    assert_eq!(change(&mut registry, "n", session, pods(false, &uids, &[])), None);
    assert_eq!(registry.pods()["n"].len(), 1);
    assert_eq!(change(&mut registry, "n", session, pods(true, &uids, &[])), Some(true));
}

#[test]
fn what_was_known_and_wanted_in_one_epoch_counts_for_nothing_in_the_next() {
    let (mut registry, session) = node_with(&["a"]);
    let table = blob("t");
    let order = delivery("a", 5, &table);
    registry.set_desired("n", order.clone(), table.clone()).unwrap();
    registry.ack("n", session, refused(&order, "disk-full"));
    registry.begin_epoch();
    assert_eq!((registry.tables("n"), registry.agent_report("n", "a")), (None, None));
    assert_eq!(registry.retry("n", session, 8), []);
    assert!(!registry.close("n", session));
    let opened = registry.open(hello("n", vec![]), 1);
    assert_eq!((opened.orders, opened.pods), (vec![], None), "everything is said anew");
    assert!(opened.session > session);
}

#[test]
fn a_wanted_table_that_an_earlier_leader_had_taken_away_is_sent_again() {
    let (mut registry, session) = node_with(&["a"]);
    let table = blob("t");
    let order = delivery("a", 5, &table);
    registry.ack("n", session, delivered(&order));
    assert_eq!(registry.set_desired("n", order.clone(), table.clone()), Ok(None), "it is there");
    let retired =
        |generation| Ack { place: order.place.clone(), generation, outcome: AckOutcome::Retired };
    assert_eq!(registry.ack("n", session, retired(4)), None);
    let again = Order::Deliver { delivery: order.clone(), blob: table };
    assert_eq!(registry.ack("n", session, retired(5)), Some(again));
}
