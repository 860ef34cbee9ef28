//! What travels: reports, tables, and only what differs.

use std::sync::Arc;
use std::time::Duration;

use muster_agent::link::LinkState;
use muster_hub::blob::Blob;
use muster_hub::{Role, Settings as HubSettings, What};
use muster_proto::delivery::Digest;
use muster_proto::link::{FromAgent, v1};

use crate::manual_peer::ManualPeer;
use crate::world::{Agent, Served, World, delivery, inventory, place, pods, quick, until};

#[tokio::test]
async fn reports_reach_the_hub_and_a_table_reaches_the_pod() {
    let world = World::new();
    let served = world.hub(quick(), 1).await;
    let mut changes = served.hub.subscribe();
    let mut agent = world.agent(&served);
    agent.inventory.send_replace(inventory(8));
    agent.pods.send_replace(pods(&["a", "b"]));
    until("pods", || served.hub.pods().get("n1").is_some_and(|pods| pods.len() == 2)).await;
    assert_eq!(served.hub.inventory("n1"), Some(inventory(8)));
    let mut seen = Vec::new();
    while let Ok(change) = changes.try_recv() {
        seen.push(change.what);
    }
    assert_eq!(seen, [What::Session, What::Inventory, What::Pods]);

    let elsewhere = served.hub.pack(b"x").unwrap();
    let refused = served.hub.deliver("n1", delivery("z", 1, elsewhere.digest()), elsewhere);
    assert_eq!(refused.unwrap_err().reason(), "pod-elsewhere");

    served.deliver("n1", "a", 1, b"table");
    let delivered = || served.hub.tables("n1").is_some_and(|tables| tables.delivered.len() == 1);
    until("the ack", delivered).await;
    assert_eq!(agent.shelf.has("a"), Some((1, Digest::of(b"table"), 5)));
    served.hub.retire("n1", &place("a"), 1).unwrap();
    until("retired", || !delivered()).await;
    assert_eq!(agent.shelf.has("a"), None);

    agent.up().await;
    assert_eq!(agent.problems.list(), []);
    assert_eq!(served.hub.sessions().len(), 1);
    agent.stop().await;
    until("the end of the session", || served.hub.sessions().is_empty()).await;
    assert_eq!(served.hub.inventory("n1"), Some(inventory(8)), "what is known stays known");
    served.stop().await;
}

#[tokio::test]
async fn after_a_reconnect_only_differences_travel() {
    let world = World::new();
    let served = world.hub(quick(), 1).await;
    let mut agent = world.agent(&served);
    agent.inventory.send_replace(inventory(8));
    agent.pods.send_replace(pods(&["a"]));
    until("pods", || served.hub.pods().contains_key("n1")).await;
    served.deliver("n1", "a", 1, b"table");
    until("the table", || agent.shelf.has("a").is_some()).await;
    until("its ack", || served.hub.metrics().delivered.get() == 1).await;
    let bytes = served.hub.metrics().table_bytes.get();
    for round in 2..5 {
        served.hub.cut_all();
        agent.until("again", |status| status.connects == round).await;
    }
    // What comes next arrives after whatever the reconnects may have sent.
    agent.pods.send_replace(pods(&["a", "b"]));
    until("the new pod", || served.hub.pods()["n1"].len() == 2).await;
    assert_eq!(served.hub.metrics().inventories.get(), 1);
    assert_eq!(agent.status.borrow().inventories_sent, 1);
    assert_eq!(served.hub.metrics().table_bytes.get(), bytes);
    assert_eq!(agent.shelf.writes(), 1);
    agent.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_hub_that_restarts_with_a_higher_epoch_learns_everything_again() {
    let world = World::new();
    let first = world.hub(quick(), 1).await;
    let port = first.address.port();
    let mut agent = world.agent(&first);
    agent.inventory.send_replace(inventory(8));
    agent.pods.send_replace(pods(&["a"]));
    until("pods", || first.hub.pods().contains_key("n1")).await;
    first.deliver("n1", "a", 1, b"table");
    until("the table", || agent.shelf.has("a").is_some()).await;
    first.stop().await;

    agent.inventory.send_replace(inventory(7));
    let tls = world.authority.server(crate::world::NAME, false);
    let second = Served::start(world.new_hub(quick(), 2), port, Some(tls)).await;
    until("pods", || second.hub.pods().contains_key("n1")).await;
    assert_eq!(second.hub.inventory("n1"), Some(inventory(7)));
    second.deliver("n1", "a", 1, b"table");
    second.deliver("n1", "a", 2, b"newer");
    until("the newer table", || agent.shelf.has("a").is_some_and(|table| table.0 == 2)).await;
    assert_eq!(agent.shelf.writes(), 2, "what was there was not written again");
    let status = agent.until("epoch", |status| status.epoch == 2).await;
    assert_eq!(status.state, LinkState::Up);
    agent.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_hub_of_an_older_epoch_is_refused() {
    let world = World::new();
    let served = world.hub(quick(), 3).await;
    let shelf = Arc::new(crate::world::Shelf::default());
    shelf.set_epoch(5);
    let agent = Agent::start(world.settings(&served.url()), "n1", shelf);
    agent.pods.send_replace(pods(&["a"]));
    let (reason, message) = agent.problem().await;
    assert_eq!(reason, "older-epoch");
    assert!(message.contains("epoch 3") && message.contains("epoch 5"), "{message}");
    assert!(served.hub.pods().is_empty(), "nothing is told to it");
    agent.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_hub_that_does_not_lead_sends_agents_to_the_one_that_does() {
    let world = World::new();
    let leader = world.hub(quick(), 4).await;
    let standby = world.hub(quick(), 0).await;
    standby.hub.set_role(Role::Standby { leader: None });
    let mut agent = world.agent(&standby);
    assert_eq!(agent.problem().await.0, "no-leader");
    standby.hub.set_role(Role::Standby { leader: Some(leader.url()) });
    let status = agent.until("up", |status| status.state == LinkState::Up).await;
    assert_eq!((status.address, status.epoch), (leader.url(), 4));
    // The leader falls; the other takes over.
    leader.hub.set_role(Role::Standby { leader: Some(standby.url()) });
    standby.hub.set_role(Role::Leader { epoch: 5 });
    let status = agent.until("epoch 5", |status| status.epoch == 5).await;
    assert_eq!(status.address, standby.url());
    agent.stop().await;
    leader.stop().await;
    standby.stop().await;
}

#[tokio::test]
async fn a_content_that_is_not_what_it_says_is_reported() {
    let world = World::new();
    let served = world.hub(quick(), 1).await;
    let agent = world.agent(&served);
    agent.pods.send_replace(pods(&["a"]));
    until("pods", || served.hub.pods().contains_key("n1")).await;
    let other = Blob::pack(b"other").unwrap().packed().clone();
    let forged = Arc::new(Blob::forged(Digest::of(b"table"), other));
    served.hub.deliver("n1", delivery("a", 1, forged.digest()), forged).unwrap();
    // It is tried a few times, and then not any more.
    until("refusals", || served.refused_orders("digest-mismatch") == 4).await;
    let refusal = served.hub.tables("n1").unwrap().refused[&place("a")].clone();
    assert_eq!((refusal.generation, refusal.reason.as_str()), (1, "digest-mismatch"));
    assert_eq!(agent.shelf.has("a"), None);
    served.deliver("n1", "a", 2, b"right");
    until("the right one", || agent.shelf.has("a").is_some()).await;
    agent.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_table_of_a_hundred_thousand_ranks_is_sent_once_for_eight_pods() {
    let world = World::new();
    // The fake agent unpacks in its only thread, and cannot ping meanwhile.
    let served = world.hub(HubSettings::default(), 1).await;
    let agent = world.agent(&served);
    let uids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    agent.pods.send_replace(pods(&uids));
    until("pods", || served.hub.pods().contains_key("n1")).await;
    let rank = |rank: u32| {
        let ip = std::net::Ipv4Addr::from(0x0a00_0000 + rank.wrapping_mul(7919) % 0x00ff_ffff);
        let (id, super_id) = (rank % 16, rank.wrapping_mul(2_654_435_761));
        format!(
            r#"{{"device_id":"{id}","device_ip":"{ip}","rank_id":"{rank}","super_device_id":"{super_id}"}}"#
        )
    };
    let ranks: Vec<String> = (0..100_000).map(rank).collect();
    let table = ranks.join(",");
    assert!(table.len() > 8_000_000, "{}", table.len());
    let blob = served.hub.pack(table.as_bytes()).unwrap();
    for uid in uids {
        served.hub.deliver("n1", delivery(uid, 1, blob.digest()), blob.clone()).unwrap();
    }
    let expected = Some((1, Digest::of(table.as_bytes()), table.len()));
    until("all tables", || uids.iter().all(|uid| agent.shelf.has(uid) == expected)).await;
    assert_eq!(served.hub.metrics().table_bytes.get(), blob.packed_size() as u64);
    agent.stop().await;
    served.stop().await;
}

/// More than any window on the way holds, so that what is behind it waits. It cannot be packed smaller.
fn noise() -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..8 * 1024 * 1024).map(|_| next()).collect()
}

#[tokio::test]
async fn a_peer_that_does_not_keep_up_is_cut_off_and_catches_up_later() {
    let world = World::new();
    let settings = HubSettings { most_orders: 4, ..quick() };
    let served = Served::start(world.new_hub(settings, 1), 0, None).await;
    let uids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut peer = ManualPeer::open(&served).await;
    peer.greet(&uids).await;
    until("pods", || served.hub.pods().contains_key("n1")).await;
    served.deliver("n1", "a", 1, &noise());
    for uid in &uids[1..] {
        served.deliver("n1", uid, 1, uid.as_bytes());
    }
    until("cut off", || served.hub.sessions().is_empty()).await;
    assert_eq!(served.refused_streams("slow"), 1);
    drop(peer);

    let mut settings = world.settings(&format!("http://{}", served.address));
    settings.plaintext = true;
    let agent = Agent::start(settings, "n1", Arc::default());
    agent.pods.send_replace(pods(&uids));
    until("all tables", || uids.iter().all(|uid| agent.shelf.has(uid).is_some())).await;
    agent.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_peer_that_takes_nothing_for_long_is_cut_off() {
    let world = World::new();
    let settings = HubSettings {
        ping_every: Duration::from_secs(60),
        stalled_after: Duration::from_millis(200),
        ..HubSettings::default()
    };
    let served = Served::start(world.new_hub(settings, 1), 0, None).await;
    let mut peer = ManualPeer::open(&served).await;
    peer.greet(&["a"]).await;
    until("pods", || served.hub.pods().contains_key("n1")).await;
    served.deliver("n1", "a", 1, &noise());
    until("cut off", || served.hub.sessions().is_empty()).await;
    assert_eq!(served.refused_streams("slow"), 1);
    drop(peer);
    served.stop().await;
}

#[tokio::test]
async fn a_peer_that_is_silent_or_speaks_out_of_turn_is_cut_off() {
    let world = World::new();
    let settings = HubSettings {
        ping_every: Duration::from_millis(100),
        hello_within: Duration::from_millis(100),
        ..HubSettings::default()
    };
    let served = Served::start(world.new_hub(settings, 1), 0, None).await;
    let mute = ManualPeer::open(&served).await;
    until("no Hello", || served.refused_streams("no-hello") == 1).await;
    let early = ManualPeer::open(&served).await;
    early.say(FromAgent::Ping(1)).await;
    until("no Hello", || served.refused_streams("invalid-message") == 1).await;
    let mut silent = ManualPeer::open(&served).await;
    silent.greet(&[]).await;
    until("silent", || served.refused_streams("silent") == 1).await;
    assert!(served.hub.sessions().is_empty());
    let mut wrong = ManualPeer::open(&served).await;
    wrong.greet(&[]).await;
    wrong.say.send(v1::FromAgent { message: None }).await.unwrap();
    until("wrong", || served.refused_streams("invalid-message") == 2).await;
    drop((mute, early, silent, wrong));
    served.stop().await;
}
