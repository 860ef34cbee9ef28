//! Many agents and one hub.

use std::sync::Arc;
use std::time::Instant;

use muster_hub::Settings as HubSettings;
use muster_proto::device::Health;

use crate::world::{Agent, LIMIT, Served, World, inventory, until};

/// A hundred in every run; a thousand when asked for with `--ignored`.
async fn crowd(agents: usize) {
    let world = World::new();
    let served = Served::start(world.new_hub(HubSettings::default(), 1), 0, None).await;
    let began = Instant::now();
    let mut running = Vec::new();
    for number in 0..agents {
        let (node, token) = (format!("node-{number}"), format!("token-{number}"));
        std::fs::write(world.path(&token), &token).unwrap();
        world.tokens.0.lock().insert(token.clone(), node.clone());
        let mut settings = world.settings(&format!("http://{}", served.address));
        settings.plaintext = true;
        settings.token_file = world.path(&token);
        let agent = Agent::start(settings, &node, Arc::default());
        agent.inventory.send_replace(inventory(8));
        running.push(agent);
    }
    until("all inventories", || served.hub.inventories().len() == agents).await;
    let all = began.elapsed();

    let mut changes = served.hub.subscribe();
    let mut faulty = (*inventory(8)).clone();
    faulty.devices[3].health = Health::Faulty("ecc".into());
    let began = Instant::now();
    running[agents / 2].inventory.send_replace(Arc::new(faulty));
    let change = tokio::time::timeout(LIMIT, changes.recv()).await.unwrap().unwrap();
    let fault = began.elapsed();
    assert_eq!(change.node, format!("node-{}", agents / 2));
    let known = served.hub.inventory(&change.node).unwrap();
    assert_eq!(known.devices[3].health, Health::Faulty("ecc".into()));
    println!("{agents} agents: all inventories after {all:?}, a fault known after {fault:?}");
    assert!(fault.as_secs_f64() < 1.0, "{fault:?}");
    for agent in running {
        agent.stop().await;
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_agents_report_and_a_fault_is_known_at_once() {
    crowd(100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes seconds; run it to measure"]
async fn a_thousand_agents_report_and_a_fault_is_known_at_once() {
    crowd(1000).await;
}
