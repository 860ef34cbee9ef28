//! What agents and hubs send each other, and the values in it.

use muster_proto::Message;
use muster_proto::delivery::{Digest, LARGEST_PACKED};
use muster_proto::device::{Inventory, Join, PciAddress};
use muster_proto::link::{
    FromAgent, FromHub, LARGEST_CHUNK, MOST_DEVICES, MOST_HELD, MOST_LINKS, MOST_PODS, MOST_TABLES,
    inventory_digest, v1,
};

/// The stream: bytes become a checked value or are refused, and a value survives the wire.
pub fn link(bytes: &[u8]) -> bool {
    let agent =
        v1::FromAgent::decode(bytes).ok().and_then(|wire| match FromAgent::try_from(wire) {
            Ok(value) => Some(value),
            Err(invalid) => {
                assert!(!invalid.field.is_empty() && invalid.to_string().len() < 4096);
                None
            }
        });
    if let Some(value) = &agent {
        check_agent(value);
        let again = v1::FromAgent::from(value).encode_to_vec();
        assert!(again.len() <= bytes.len(), "written longer than it was read");
        let wire = v1::FromAgent::decode(&*again).expect("what was written");
        assert_eq!(FromAgent::try_from(wire).as_ref(), Ok(value), "written and read again");
    }
    let hub = v1::FromHub::decode(bytes).ok().and_then(|wire| match FromHub::try_from(wire) {
        Ok(value) => Some(value),
        Err(invalid) => {
            assert!(!invalid.field.is_empty() && invalid.to_string().len() < 4096);
            None
        }
    });
    if let Some(value) = &hub {
        check_hub(value);
        let again = v1::FromHub::from(value.clone()).encode_to_vec();
        assert!(again.len() <= bytes.len(), "written longer than it was read");
        let wire = v1::FromHub::decode(&*again).expect("what was written");
        assert_eq!(FromHub::try_from(wire).as_ref(), Ok(value), "written and read again");
    }
    agent.is_some() || hub.is_some()
}

fn check_agent(value: &FromAgent) {
    match value {
        FromAgent::Hello(hello) => {
            assert!(!hello.node.is_empty() && hello.delivered.len() <= MOST_TABLES);
        }
        FromAgent::Inventory(inventory) => {
            assert!(inventory.devices.len() <= MOST_DEVICES && inventory.links.len() <= MOST_LINKS);
            assert_eq!(inventory_digest(inventory), inventory_digest(&inventory.clone()));
        }
        FromAgent::Pods(change) => {
            assert!(change.upserts.len() <= MOST_PODS && change.gone.len() <= MOST_PODS);
            assert!(change.upserts.iter().all(|pod| pod.devices.len() <= MOST_HELD));
            assert!(change.upserts.iter().all(|pod| !pod.pod.uid.is_empty()));
        }
        FromAgent::Ack(ack) => assert!(!ack.place.file.contains('/')),
        FromAgent::Ping(_) => {}
    }
}

fn check_hub(value: &FromHub) {
    match value {
        FromHub::Welcome(welcome) => {
            assert!((10..=600_000).contains(&welcome.ping_every.as_millis()))
        }
        FromHub::Chunk(chunk) => {
            let end = chunk.offset + chunk.bytes.len() as u64;
            assert!(chunk.bytes.len() <= LARGEST_CHUNK && chunk.packed_size <= LARGEST_PACKED);
            assert!(end <= chunk.packed_size && chunk.last == (end == chunk.packed_size));
        }
        FromHub::Deliver { delivery, .. } => assert!(delivery.mode <= 0o777),
        FromHub::Retire { place, .. } => {
            for name in [&place.pod_uid, &place.volume, &place.file] {
                assert!(!name.is_empty() && name != ".." && !name.contains(['/', '\0']));
            }
        }
        FromHub::Pong(_) => {}
        FromHub::Redirect(address) => assert!(address.as_ref().is_none_or(|it| !it.is_empty())),
    }
}

/// Values that have a text form: each line is one; the whole may be an inventory.
pub fn values(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let mut found = false;
    for line in text.lines().take(64) {
        if let Ok(value) = line.parse::<PciAddress>() {
            found = true;
            assert_eq!(value.to_string().parse(), Ok(value), "printed and read again");
        }
        if let Ok(value) = line.parse::<Join>() {
            found = true;
            assert_eq!(value.to_string().parse(), Ok(value), "printed and read again");
        }
        if let Ok(value) = line.parse::<Digest>() {
            found = true;
            assert_eq!(value.to_string(), line.to_ascii_lowercase());
        }
    }
    if let Ok(mut inventory) = serde_json::from_str::<Inventory>(text) {
        found = true;
        let printed = serde_json::to_string(&inventory).expect("an inventory");
        let again = serde_json::from_str::<Inventory>(&printed).expect("what was printed");
        assert_eq!(again, inventory, "printed and read again");
        inventory.sort();
        let mut twice = inventory.clone();
        twice.sort();
        assert_eq!(twice, inventory, "sorted twice is sorted once");
        for link in &inventory.links {
            assert!(link.a <= link.b && inventory.join(link.b, link.a) == link.join);
        }
    }
    found
}
