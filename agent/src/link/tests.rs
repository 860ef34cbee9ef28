use std::time::Duration;

use muster_proto::device::{Device, Vendor};
use muster_proto::link::{AckOutcome, Chunk, LARGEST_CHUNK};
use muster_proto::pod::PodRef;
use proptest::prelude::*;

use super::*;

const PING: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn me() -> Me {
    let text = str::to_owned;
    Me { node: text("n1"), boot_id: text("b"), version: text("1"), instance: text("i") }
}

fn inventory(devices: u32) -> Arc<Inventory> {
    let devices = (0..devices).map(|id| Device::new(Vendor::Ascend, id, "")).collect();
    Arc::new(Inventory { devices, ..Inventory::default() })
}

fn pod(uid: &str, name: &str) -> PodDevices {
    let pod = PodRef { namespace: "ns".into(), name: name.into(), uid: uid.into() };
    PodDevices { pod, devices: Vec::new() }
}

fn place(file: &str) -> Place {
    Place { pod_uid: "u".into(), volume: "v".into(), file: file.into() }
}

fn delivery(file: &str, generation: u64, content: &[u8]) -> Delivery {
    let (place, digest) = (place(file), Digest::of(content));
    Delivery { place, generation, digest, mode: 0o644, group: None }
}

fn order(epoch: u64, file: &str, generation: u64, content: &[u8]) -> FromHub {
    FromHub::Deliver { epoch, delivery: delivery(file, generation, content) }
}

/// The content stands for its packed form.
fn blob(content: &[u8]) -> FromHub {
    let (bytes, size) = (Bytes::copy_from_slice(content), content.len() as u64);
    let digest = Digest::of(content);
    FromHub::Chunk(Chunk { digest, packed_size: size, offset: 0, bytes, last: true })
}

fn welcome(epoch: u64, inventory: Option<Digest>, pods: Option<Digest>) -> FromHub {
    let version = String::new();
    FromHub::Welcome(Welcome { epoch, version, inventory, pods, ping_every: PING })
}

fn up(epoch: u64) -> Link {
    let mut link = Link::new(me(), 0, Vec::new());
    link.connected(at(0));
    link.received(at(0), welcome(epoch, None, None));
    assert!(link.is_up());
    link
}

/// Each output as a few words.
fn words(outputs: &[Output]) -> Vec<String> {
    let word = |output: &Output| match output {
        Output::Send(FromAgent::Hello(_)) => "hello".to_owned(),
        Output::Send(FromAgent::Inventory(inventory)) => {
            format!("inventory {}", inventory.devices.len())
        }
        Output::Send(FromAgent::Pods(change)) => {
            let uids: Vec<&str> = change.upserts.iter().map(|pod| pod.pod.uid.as_str()).collect();
            let full = if change.full { "full " } else { "" };
            format!("pods {full}+{} -{}", uids.join(","), change.gone.join(","))
        }
        Output::Send(FromAgent::Ack(ack)) => {
            let outcome = match &ack.outcome {
                AckOutcome::Delivered(_) => "delivered",
                AckOutcome::Retired => "retired",
                AckOutcome::Refused { reason, .. } => reason,
            };
            format!("ack {} {} {outcome}", ack.place.file, ack.generation)
        }
        Output::Send(FromAgent::Ping(number)) => format!("ping {number}"),
        Output::Deliver { delivery, .. } => {
            format!("write {} {}", delivery.place.file, delivery.generation)
        }
        Output::Retire { place, generation } => format!("retire {} {generation}", place.file),
        Output::Disconnect(error) => format!("leave {}", error.reason()),
        Output::Redirect(leader) => format!("go {}", leader.as_deref().unwrap_or("nowhere")),
    };
    outputs.iter().map(word).collect()
}

fn written(delivery: &Delivery) -> Result<Option<Delivered>, DeliverError> {
    let Delivery { place, generation, digest, .. } = delivery.clone();
    Ok(Some(Delivered { place, generation, digest }))
}

#[test]
fn nothing_but_hello_is_said_before_welcome() {
    let mut link = Link::new(me(), 0, Vec::new());
    assert_eq!(link.inventory(inventory(1)), Ok(vec![]));
    assert_eq!(words(&link.connected(at(0))), ["hello"]);
    assert_eq!(link.inventory(inventory(2)), Ok(vec![]));
    assert_eq!(words(&link.pods(&[pod("a", "a")])), [""; 0]);
    assert_eq!(words(&link.tick(at(5))), [""; 0]);
    let said = link.received(at(6), welcome(1, None, None));
    assert_eq!(words(&said), ["inventory 2", "pods full +a -"]);
}

#[test]
fn a_hub_that_speaks_before_welcome_or_twice_is_left() {
    for first in [FromHub::Pong(1), order(1, "f", 1, b"x"), blob(b"x")] {
        let mut link = Link::new(me(), 0, Vec::new());
        link.connected(at(0));
        assert_eq!(words(&link.received(at(0), first)), ["leave protocol"]);
    }
    assert_eq!(words(&up(3).received(at(0), welcome(3, None, None))), ["leave protocol"]);
}

#[test]
fn an_older_epoch_is_left_and_a_newer_one_is_remembered() {
    let mut link = Link::new(me(), 7, Vec::new());
    link.connected(at(0));
    assert_eq!(words(&link.received(at(0), welcome(6, None, None))), ["leave older-epoch"]);
    assert!(!link.is_up());
    link.disconnected();
    link.connected(at(1));
    link.received(at(1), welcome(9, None, None));
    assert_eq!(link.epoch(), 9);
    link.received(at(1), blob(b"x"));
    assert_eq!(words(&link.received(at(1), order(8, "f", 1, b"x"))), ["leave older-epoch"]);
    assert_eq!(words(&link.received(at(1), order(10, "f", 1, b"x"))), ["leave protocol"]);
}

#[test]
fn only_what_the_hub_does_not_know_is_told() {
    let mut link = up(1);
    assert_eq!(words(&link.inventory(inventory(1)).unwrap()), ["inventory 1"]);
    assert_eq!(words(&link.inventory(inventory(1)).unwrap()), [""; 0]);
    assert_eq!(words(&link.pods(&[pod("a", "x"), pod("b", "y")])), ["pods full +a,b -"]);
    assert_eq!(words(&link.pods(&[pod("b", "z"), pod("c", "c")])), ["pods +b,c -a"]);
    assert_eq!(words(&link.pods(&[pod("c", "c"), pod("b", "z")])), [""; 0]);

    let told = (
        Some(inventory_digest(&inventory(1))),
        Some(pods_digest([&pod("b", "z"), &pod("c", "c")])),
    );
    link.disconnected();
    link.pods(&[pod("c", "c")]);
    let cases: [(_, &[&str]); 3] = [
        // It remembers what it was told: only the change travels.
        (told, &["pods + -b"]),
        // It remembers all that is so now.
        ((told.0, Some(pods_digest([&pod("c", "c")]))), &[]),
        // It is another one.
        ((None, None), &["inventory 1", "pods full +c -"]),
    ];
    for ((inventory, pods), expected) in cases {
        let told = link.reported_pods.clone();
        link.connected(at(1));
        assert_eq!(words(&link.received(at(1), welcome(1, inventory, pods))), expected);
        link.disconnected();
        link.reported_pods = told;
    }
}

#[test]
fn a_peer_that_is_silent_for_three_pings_is_left() {
    let mut link = up(1);
    assert_eq!(words(&link.tick(at(9))), [""; 0]);
    assert_eq!(words(&link.tick(at(10))), ["ping 1"]);
    assert_eq!(words(&link.tick(at(11))), [""; 0]);
    assert_eq!(words(&link.tick(at(20))), ["ping 2"]);
    link.received(at(21), FromHub::Pong(2));
    assert_eq!(words(&link.tick(at(50))), ["ping 3"]);
    assert_eq!(words(&link.tick(at(52))), ["leave unreachable"]);
    let mut link = Link::new(me(), 0, Vec::new());
    link.connected(at(0));
    assert_eq!(words(&link.tick(at(11))), ["leave unreachable"]);
}

#[test]
fn an_order_is_carried_out_when_its_content_is_there() {
    let mut link = up(1);
    assert_eq!(words(&link.received(at(1), order(1, "f", 1, b"x"))), ["ack f 1 blob-missing"]);
    link.received(at(1), blob(b"x"));
    assert_eq!(words(&link.received(at(1), order(1, "f", 1, b"x"))), ["write f 1"]);
    // Said again while it is being done.
    assert_eq!(words(&link.received(at(1), order(1, "f", 1, b"x"))), [""; 0]);
    let done = link.done(&place("f"), written(&delivery("f", 1, b"x")));
    assert_eq!(words(&done), ["ack f 1 delivered"]);
    assert_eq!(words(&link.received(at(1), order(1, "f", 0, b"x"))), ["ack f 0 older-generation"]);
}

#[test]
fn of_the_orders_for_one_place_the_newest_remains() {
    let mut link = up(1);
    link.received(at(0), blob(b"x"));
    assert_eq!(words(&link.received(at(1), order(1, "f", 1, b"x"))), ["write f 1"]);
    assert_eq!(words(&link.received(at(1), order(1, "f", 2, b"x"))), [""; 0]);
    assert_eq!(words(&link.received(at(1), order(1, "f", 4, b"x"))), ["ack f 2 superseded"]);
    assert_eq!(words(&link.received(at(1), order(1, "f", 3, b"x"))), ["ack f 3 superseded"]);
    let done = link.done(&place("f"), written(&delivery("f", 1, b"x")));
    assert_eq!(words(&done), ["ack f 1 delivered", "write f 4"]);
    let retire = FromHub::Retire { epoch: 1, place: place("f"), generation: 4 };
    assert_eq!(words(&link.received(at(1), retire)), [""; 0]);
    let done = link.done(&place("f"), written(&delivery("f", 4, b"x")));
    assert_eq!(words(&done), ["ack f 4 delivered", "retire f 4"]);
    assert_eq!(words(&link.done(&place("f"), Ok(None))), ["ack f 4 retired"]);
}

#[test]
fn an_outcome_while_the_link_is_down_is_told_after_welcome() {
    let mut link = up(1);
    link.received(at(0), blob(b"x"));
    link.received(at(0), order(1, "f", 1, b"x"));
    link.disconnected();
    assert_eq!(words(&link.done(&place("f"), written(&delivery("f", 1, b"x")))), [""; 0]);
    link.connected(at(1));
    assert_eq!(words(&link.received(at(1), welcome(1, None, None))), ["ack f 1 delivered"]);
}

#[test]
fn a_content_that_is_not_what_it_says_is_reported_and_dropped() {
    let mut link = up(1);
    link.received(at(0), blob(b"x"));
    link.received(at(0), order(1, "f", 1, b"x"));
    let refused = DeliverError { reason: "digest-mismatch", message: String::new() };
    assert_eq!(words(&link.done(&place("f"), Err(refused))), ["ack f 1 digest-mismatch"]);
    assert_eq!(words(&link.received(at(1), order(1, "f", 1, b"x"))), ["ack f 1 blob-missing"]);
}

#[test]
fn contents_are_freed_a_while_after_their_last_order() {
    let mut link = up(1);
    link.received(at(0), blob(b"table"));
    for pod in ["a", "b", "c"] {
        link.received(at(1), order(1, pod, 1, b"table"));
    }
    for second in [20, 40, 60] {
        link.received(at(second), FromHub::Pong(0));
        link.tick(at(second));
        assert_eq!(link.held(), 5, "orders wait");
    }
    for pod in ["a", "b", "c"] {
        link.done(&place(pod), written(&delivery(pod, 1, b"table")));
    }
    link.tick(at(70));
    assert_eq!(link.held(), 5, "another pod may come");
    link.tick(at(100));
    assert_eq!(link.held(), 0);
}

#[test]
fn parts_out_of_order_mixed_or_too_large_end_the_stream() {
    let part = |content: &[u8], size, offset, length, last| {
        let (digest, bytes) = (Digest::of(content), Bytes::from(vec![0; length]));
        FromHub::Chunk(Chunk { digest, packed_size: size, offset, bytes, last })
    };
    let cases = [
        vec![part(b"x", 10, 5, 5, true)],
        vec![part(b"x", 10, 0, 5, false), part(b"y", 10, 0, 10, true)],
        vec![part(b"x", 10, 0, 5, false), part(b"x", 10, 0, 5, false)],
        vec![part(b"x", 10, 0, 5, true)],
        vec![part(b"x", u64::MAX, 0, 5, false)],
        vec![part(b"x", 10, 0, 11, true)],
    ];
    for parts in cases {
        let mut link = up(1);
        let last = parts.into_iter().map(|part| link.received(at(0), part)).last().unwrap();
        assert_eq!(words(&last), ["leave protocol"]);
    }
}

#[test]
fn while_too_much_waits_to_be_written_nothing_more_is_read() {
    let mut link = up(1);
    let size = 8 * 1024 * 1024;
    for number in 0..2u8 {
        assert!(link.reads());
        let digest = Digest::of(&[number]);
        for offset in (0..size).step_by(LARGEST_CHUNK) {
            let bytes = Bytes::from(vec![number; LARGEST_CHUNK]);
            let last = offset + LARGEST_CHUNK == size;
            let (packed_size, offset) = (size as u64, offset as u64);
            let chunk = Chunk { digest, packed_size, offset, bytes, last };
            assert_eq!(link.received(at(0), FromHub::Chunk(chunk)), []);
        }
        let file = number.to_string();
        assert_eq!(link.received(at(0), order(1, &file, 1, &[number])).len(), 1);
    }
    assert!(!link.reads());
    // The hub cannot be heard, so its silence means nothing.
    assert_eq!(words(&link.tick(at(40))), ["ping 1"]);
    link.done(&place("0"), written(&delivery("0", 1, &[0])));
    assert!(link.reads());
}

#[test]
fn a_hub_that_does_not_lead_names_the_one_that_does() {
    let mut link = Link::new(me(), 0, Vec::new());
    link.connected(at(0));
    let leader = Some("https://b".to_owned());
    assert_eq!(words(&link.received(at(0), FromHub::Redirect(leader))), ["go https://b"]);
    assert_eq!(words(&link.received(at(0), FromHub::Redirect(None))), ["go nowhere"]);
}

#[test]
fn an_inventory_that_no_message_can_hold_is_refused_and_the_old_one_stays() {
    let mut link = up(1);
    link.inventory(inventory(1)).unwrap();
    let mut huge = Device::new(Vendor::Ascend, 0, "");
    huge.model = "x".repeat(LARGEST_MESSAGE);
    let huge = Inventory { devices: vec![huge], ..Inventory::default() };
    assert_eq!(link.inventory(Arc::new(huge)).unwrap_err().reason, "inventory-too-large");
    assert_eq!(link.inventory(inventory(1)), Ok(vec![]));
}

proptest! {
    /// Whatever a hub says in whatever order, what is held stays bounded and nothing is written out of order.
    #[test]
    fn no_hub_makes_the_agent_hold_much_or_go_back(
        steps in proptest::collection::vec((0u8..8, 0u8..3, 0u64..4, 0u64..4), 0..200),
    ) {
        let mut link = up(2);
        let mut highest = BTreeMap::<String, u64>::new();
        let mut running = Vec::<Delivery>::new();
        for (now, (step, file, generation, epoch)) in (0u64..).zip(steps) {
            let (file, content) = (file.to_string(), [file; 100]);
            let outputs = match step {
                0 | 1 => link.received(at(now), blob(&content)),
                2..=4 => link.received(at(now), order(epoch.max(2), &file, generation, &content)),
                5 => match running.pop() {
                    Some(done) => link.done(&done.place.clone(), written(&done)),
                    None => Vec::new(),
                },
                6 => link.tick(at(now)),
                _ => {
                    link.disconnected();
                    link.connected(at(now));
                    link.received(at(now), welcome(2, None, None))
                }
            };
            for output in outputs {
                if let Output::Deliver { epoch, delivery, .. } = output {
                    prop_assert_eq!(epoch, 2);
                    prop_assert!(running.iter().all(|other| other.place != delivery.place));
                    let before = highest.entry(delivery.place.file.clone()).or_default();
                    prop_assert!(delivery.generation >= *before);
                    *before = delivery.generation;
                    running.push(delivery);
                }
            }
            prop_assert!(running.len() <= AT_ONCE);
            prop_assert!(link.held() <= 300);
        }
    }
}
