//! Who leads, and what of that agents and controllers see.

use std::time::Duration;

use muster_hub::{Role, Settings as HubSettings};
use muster_proto::link::{FromAgent, FromHub};

use crate::manual_peer::ManualPeer;
use crate::world::{Served, World, delivery, place, quick, until};

#[tokio::test]
async fn what_a_hub_wanted_before_another_led_is_not_sent_when_it_leads_again() {
    let world = World::new();
    let served = Served::start(world.new_hub(quick(), 1), 0, None).await;
    let mut peer = ManualPeer::open(&served).await;
    peer.greet(&["a"]).await;
    until("pods", || served.hub.pods().contains_key("n1")).await;
    served.deliver("n1", "a", 5, b"table");
    served.hub.set_role(Role::Standby { leader: None });
    let blob = served.hub.pack(b"table").unwrap();
    let order = delivery("a", 6, blob.digest());
    assert_eq!(served.hub.deliver("n1", order, blob).unwrap_err().reason(), "not-leading");
    let retired = served.hub.retire("n1", &place("a"), 6);
    assert_eq!(retired.unwrap_err().reason(), "not-leading");
    served.hub.set_role(Role::Leader { epoch: 3 });
    drop(peer);
    let mut peer = ManualPeer::open(&served).await;
    peer.greet(&["a"]).await;
    peer.say(FromAgent::Ping(1)).await;
    assert_eq!(peer.hear().await.unwrap(), FromHub::Pong(1), "nothing else waits");
    assert!(served.hub.tables("n1").unwrap().desired.is_empty());
    // What is wanted now goes with the epoch of now.
    served.deliver("n1", "a", 7, b"table");
    let FromHub::Deliver { epoch, delivery } = peer.hear().await.unwrap() else { panic!() };
    assert_eq!((epoch, delivery.generation), (3, 7));
    drop(peer);
    served.stop().await;
}

#[tokio::test]
async fn ends_that_are_nobodys_fault_have_names() {
    let world = World::new();
    let served = Served::start(world.new_hub(quick(), 1), 0, None).await;
    for (expected, end) in [("role", 2), ("stopping", 0)] {
        let mut peer = ManualPeer::open(&served).await;
        peer.greet(&[]).await;
        match end {
            0 => served.hub.cut_all(),
            epoch => served.hub.set_role(Role::Leader { epoch }),
        }
        assert_eq!(peer.end().await, expected);
    }
    served.stop().await;
    let settings = HubSettings { stream_age: Duration::from_millis(100), ..quick() };
    let served = Served::start(world.new_hub(settings, 1), 0, None).await;
    let mut peer = ManualPeer::open(&served).await;
    peer.greet(&[]).await;
    assert_eq!(peer.end().await, "renew");
    served.stop().await;
}
