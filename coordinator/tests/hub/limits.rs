//! What peers may not do to a hub, and what a hub does for peers in trouble.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use muster_hub::{Role, Settings as HubSettings};
use muster_proto::link::{Ack, AckOutcome, FromAgent, FromHub};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::manual_peer::{ManualPeer, reason};
use crate::world::{Agent, LIMIT, NAME, Served, World, inventory, pods, quick, until};

#[tokio::test]
async fn a_table_that_was_refused_is_there_once_the_disk_has_room() {
    let world = World::new();
    let served = world.hub(quick(), 1).await;
    let agent = world.agent(&served);
    agent.shelf.refuse(Some("disk-full"));
    agent.pods.send_replace(pods(&["a"]));
    until("pods", || served.hub.pods().contains_key("n1")).await;
    served.deliver("n1", "a", 1, b"table");
    until("tried again", || served.refused_orders("disk-full") >= 3).await;
    agent.shelf.refuse(None);
    until("the table", || agent.shelf.has("a").is_some()).await;
    until("known", || served.hub.tables("n1").unwrap().refused.is_empty()).await;
    agent.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_refusal_for_good_is_not_tried_again() {
    let world = World::new();
    let served = Served::start(world.new_hub(quick(), 1), 0, None).await;
    let mut peer = ManualPeer::open(&served).await;
    peer.greet(&["a"]).await;
    until("pods", || served.hub.pods().contains_key("n1")).await;
    for (generation, reason, again) in [(1, "symlink-in-path", false), (2, "io", true)] {
        served.deliver("n1", "a", generation, b"table");
        let FromHub::Deliver { delivery, .. } = peer.hear().await.unwrap() else { panic!() };
        let outcome = AckOutcome::Refused { reason: reason.to_owned(), message: String::new() };
        let (place, digest) = (delivery.place.clone(), delivery.digest);
        let ack = Ack { place, generation, outcome };
        peer.say(FromAgent::Ack(ack)).await;
        peer.say(FromAgent::Ping(generation)).await;
        assert_eq!(peer.hear().await.unwrap(), FromHub::Pong(generation));
        if again {
            // The ping before may have been too early for another try.
            let limit = Instant::now() + LIMIT;
            let said = loop {
                assert!(Instant::now() < limit, "never said again");
                peer.say(FromAgent::Ping(0)).await;
                match peer.hear().await.unwrap() {
                    FromHub::Pong(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    other => break other,
                }
            };
            let FromHub::Deliver { delivery, .. } = said else { panic!("{said:?}") };
            assert_eq!((delivery.generation, delivery.digest), (generation, digest));
        }
    }
    drop(peer);
    served.stop().await;
}

#[tokio::test]
async fn one_node_cannot_take_the_seats_of_all() {
    let world = World::new();
    world.tokens.0.lock().insert("token-n2".into(), "n2".into());
    let settings = HubSettings { most_peers: 5, ..quick() };
    let served = Served::start(world.new_hub(settings, 1), 0, None).await;
    let mut mute = Vec::new();
    for _ in 0..4 {
        mute.push(ManualPeer::open(&served).await);
    }
    let fifth = ManualPeer::with_token(&served, "token-n1").await.err().unwrap();
    assert_eq!(reason(&fifth), "too-many-streams");
    let other = ManualPeer::with_token(&served, "token-n2").await;
    assert!(other.is_ok(), "{:?}", other.err());
    // A seat is free when its stream ends.
    mute.pop();
    let limit = Instant::now() + LIMIT;
    while ManualPeer::with_token(&served, "token-n1").await.is_err() {
        assert!(Instant::now() < limit, "never free");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop((mute, other));
    served.stop().await;
}

#[tokio::test]
async fn connections_without_an_agent_make_room_and_end() {
    let world = World::new();
    let settings = HubSettings {
        most_connections: 3,
        hello_within: Duration::from_millis(100),
        ..HubSettings::default()
    };
    for tls in [false, true] {
        let tls = tls.then(|| world.authority.server(NAME, false));
        let plaintext = tls.is_none();
        let served = Served::start(world.new_hub(settings.clone(), 1), 0, tls).await;
        let mut mute = Vec::new();
        for _ in 0..5 {
            mute.push(TcpStream::connect(served.address).await.unwrap());
        }
        let mut settings = world.settings(&served.url());
        if plaintext {
            settings = world.settings(&format!("http://{}", served.address));
            settings.plaintext = true;
        }
        let mut agent = Agent::start(settings, "n1", Default::default());
        agent.up().await;
        for socket in &mut mute {
            // HTTP/2 may have said a word before.
            let mut said = Vec::new();
            let end = socket.read_to_end(&mut said);
            let _ = tokio::time::timeout(LIMIT, end).await.expect("it ends");
        }
        let ended = || served.closed("quiet") + served.hub.metrics().idle_connections.get();
        until("ended", || ended() == 5).await;
        assert!(served.closed("quiet") >= 2, "who comes later does not wait");
        // Another one's whole life passes, and the agent's connection is still the first one.
        let _late = TcpStream::connect(served.address).await.unwrap();
        until("ended", || ended() == 6).await;
        assert_eq!(agent.status.borrow().connects, 1);
        agent.stop().await;
        until("all closed", || served.hub.metrics().connections.get() == 0).await;
        served.stop().await;
    }
}

#[tokio::test]
async fn a_source_with_too_many_streams_is_turned_away_at_once_and_others_are_not() {
    let world = World::new();
    let settings = HubSettings { most_connections_per_source: 2, ..quick() };
    let served = Served::start(world.new_hub(settings, 1), 0, None).await;
    let streams = [ManualPeer::open(&served).await, ManualPeer::open(&served).await];
    let mut third = TcpStream::connect(served.address).await.unwrap();
    let mut said = Vec::new();
    let end = tokio::time::timeout(LIMIT, third.read_to_end(&mut said)).await.expect("it ends");
    assert!(end.is_err() || said.is_empty(), "{said:?}");
    assert_eq!(served.closed("source-full"), 1);
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let _other = socket.connect(served.address).await.unwrap();
    until("let in", || served.hub.metrics().connections.get() == 3).await;
    drop(streams);
    served.stop().await;
}

#[tokio::test]
async fn a_standby_names_the_leader_and_asks_nobody_about_tokens() {
    let world = World::new();
    let served = Served::start(world.new_hub(quick(), 1), 0, None).await;
    served.hub.set_role(Role::Standby { leader: Some("https://leader:1".to_owned()) });
    for token in ["token-n1", "invented"] {
        let mut peer = ManualPeer::with_token(&served, token).await.unwrap();
        let said = tokio::time::timeout(LIMIT, peer.hear()).await.expect("a word").unwrap();
        assert_eq!(said, FromHub::Redirect(Some("https://leader:1".to_owned())));
    }
    assert_eq!(world.tokens.1.load(Ordering::Relaxed), 0);
    served.hub.set_role(Role::Leader { epoch: 2 });
    assert!(ManualPeer::with_token(&served, "invented").await.is_err());
    assert_eq!(world.tokens.1.load(Ordering::Relaxed), 1);
    served.stop().await;
}

#[tokio::test]
async fn who_sends_too_many_bytes_is_heard_later() {
    let world = World::new();
    let settings = HubSettings { most_bytes: 500, ..quick() };
    let served = Served::start(world.new_hub(settings, 1), 0, None).await;
    let mut peer = ManualPeer::open(&served).await;
    peer.greet(&[]).await;
    let began = Instant::now();
    peer.say(FromAgent::Inventory(Box::new((*inventory(32)).clone()))).await;
    peer.say(FromAgent::Ping(1)).await;
    assert_eq!(peer.hear().await.unwrap(), FromHub::Pong(1));
    assert!(began.elapsed() > Duration::from_millis(500), "{:?}", began.elapsed());
    drop(peer);
    served.stop().await;
}
