//! Whom the two sides believe.

use std::sync::Arc;

use muster_agent::link::LinkState;
use muster_agent::problem::Area;
use muster_hub::Settings as HubSettings;

use crate::certificate::Authority;
use crate::world::{Agent, NAME, Served, World, inventory, quick, until};

#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_is_a_problem_with_its_cause() {
    let world = World::new();
    let other = Authority::new("other");
    let cases = [
        (other.server(NAME, false), "UnknownIssuer"),
        (world.authority.server(NAME, true), "expired"),
        (world.authority.server("other.example.org", false), "not valid for"),
    ];
    for (tls, cause) in cases {
        let served = Served::start(world.new_hub(quick(), 1), 0, Some(tls)).await;
        let agent = world.agent(&served);
        let (reason, message) = agent.problem().await;
        assert_eq!(reason, "certificate-invalid", "{message}");
        assert!(message.contains(cause), "{message} does not say {cause}");
        assert!(served.hub.sessions().is_empty());
        agent.stop().await;
        served.stop().await;
    }
}

#[tokio::test]
async fn a_new_certificate_authority_is_believed_at_the_next_try() {
    let world = World::new();
    let served = world.hub(quick(), 1).await;
    std::fs::write(world.path("ca.crt"), Authority::new("other").pem).unwrap();
    let mut agent = world.agent(&served);
    assert_eq!(agent.problem().await.0, "certificate-invalid");
    std::fs::write(world.path("ca.crt"), &world.authority.pem).unwrap();
    agent.up().await;
    until("solved", || agent.problems.open(Area::Link) == 0).await;
    agent.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_hub_that_is_not_there_is_a_problem_until_it_is() {
    let world = World::new();
    let served = world.hub(quick(), 1).await;
    let (port, url) = (served.address.port(), served.url());
    served.stop().await;
    let mut agent = Agent::start(world.settings(&url), "n1", Arc::default());
    assert_eq!(agent.problem().await.0, "unreachable");
    let tls = world.authority.server(NAME, false);
    let served = Served::start(world.new_hub(quick(), 1), port, Some(tls)).await;
    agent.up().await;
    until("solved", || agent.problems.open(Area::Link) == 0).await;
    agent.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_token_that_proves_nothing_or_another_node_is_refused() {
    let world = World::new();
    world.tokens.0.lock().insert("token-n2".into(), "n2".into());
    let served = world.hub(quick(), 1).await;
    for (token, expected, counted) in [
        ("forged", "token-refused", "token-refused"),
        ("token-n2", "token-refused", "other-node"),
        ("", "token-missing", ""),
    ] {
        std::fs::write(world.path("token"), token).unwrap();
        let agent = world.agent(&served);
        agent.inventory.send_replace(inventory(8));
        assert_eq!(agent.problem().await.0, expected, "{token}");
        assert!(counted.is_empty() || served.refused_streams(counted) > 0, "{counted}");
        agent.stop().await;
    }
    assert!(served.hub.sessions().is_empty() && served.hub.inventories().is_empty());
    served.stop().await;
}

#[tokio::test]
async fn a_token_that_rotates_moves_the_link_without_a_gap() {
    let world = World::new();
    world.tokens.0.lock().insert("second".into(), "n1".into());
    let served = world.hub(quick(), 1).await;
    let mut agent = world.agent(&served);
    agent.inventory.send_replace(inventory(8));
    agent.up().await;
    let mut states = agent.status.clone();
    let gap = tokio::spawn(async move {
        states.wait_for(|status| status.state != LinkState::Up).await.is_ok()
    });
    std::fs::write(world.path("token"), "second").unwrap();
    until("a second stream", || served.hub.sessions().first().is_some_and(|s| s.number == 2)).await;
    agent.until("welcomed again", |status| status.connects == 2).await;
    assert!(!gap.is_finished(), "the link was down in between");
    gap.abort();
    assert_eq!(agent.problems.raised(), []);
    assert_eq!(served.hub.metrics().inventories.get(), 1);
    // A new token that is refused leaves the old stream as it is.
    std::fs::write(world.path("token"), "forged").unwrap();
    until("refused", || served.refused_streams("token-refused") > 0).await;
    assert_eq!(served.hub.sessions()[0].number, 2);
    assert_eq!(agent.status.borrow().state, LinkState::Up);
    agent.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_full_hub_says_so() {
    let world = World::new();
    let served = world.hub(HubSettings { most_peers: 1, ..quick() }, 1).await;
    let mut first = world.agent(&served);
    first.up().await;
    world.tokens.0.lock().insert("token-n2".into(), "n2".into());
    std::fs::write(world.path("token2"), "token-n2").unwrap();
    let mut settings = world.settings(&served.url());
    settings.token_file = world.path("token2");
    let second = Agent::start(settings, "n2", Arc::default());
    assert_eq!(second.problem().await.0, "hub-full");
    first.stop().await;
    second.stop().await;
    served.stop().await;
}
