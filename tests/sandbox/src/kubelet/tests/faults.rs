//! Kubelets whose requests fail. Faults are of the embedded API only.

use super::*;
use crate::faults::{Faults, Rule};

async fn faulty() -> World {
    let (clock, node, namespace) = (Clock::machine(), "n".to_owned(), "default".to_owned());
    let sandbox = Sandbox::builder().clock(clock.clone()).controllers(None).start().await.unwrap();
    let client = sandbox.client();
    furnish(&client, &namespace).await;
    let root = tempfile::tempdir().unwrap();
    let spec = NodeSpec::bare(&node, Profile::Ascend910b8, 0);
    let options = KubeletOptions::default();
    let kubelets = Kubelets::start(client.clone(), clock.clone(), vec![spec], options);
    let kubelets = kubelets.await.unwrap();
    World { client, clock, kubelets, root, namespace, node, sandbox: Some(sandbox) }
}

impl World {
    fn faults(&self) -> &Faults {
        self.sandbox.as_ref().unwrap().faults()
    }

    async fn struck(&self, times: u64) {
        let waiting = async {
            while self.faults().struck() < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
    }
}

#[tokio::test]
async fn a_restart_outlasts_failed_requests() {
    let world = faulty().await;
    world.faults().add(Rule::refusal(503).verb("list").resource("pods").times(2));
    world.faults().add(Rule::refusal(503).verb("patch").resource("nodes").times(1));
    world.handle().restart().await.unwrap();
    assert_eq!(world.faults().struck(), 3);
    world.create(pod("a", 1, json!({}))).await;
    world.phase("a", "Running").await;
    world.close().await;
}

#[tokio::test]
async fn a_restart_that_is_refused_says_so_and_can_be_tried_again() {
    let world = faulty().await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let node = nodes.get(&world.node).await.unwrap();
    nodes.delete(&world.node, &DeleteParams::default()).await.unwrap();
    let refused = world.handle().restart().await;
    assert!(matches!(refused, Err(KubeletError::Register { .. })), "{refused:?}");
    let again = json!({ "metadata": { "name": node.metadata.name } });
    let again = serde_json::from_value(again).unwrap();
    nodes.create(&PostParams::default(), &again).await.unwrap();
    world.handle().restart().await.unwrap();
    world.create(pod("a", 1, json!({}))).await;
    world.phase("a", "Running").await;
    world.close().await;
}

#[tokio::test]
async fn a_stopped_kubelet_writes_no_more() {
    let world = faulty().await;
    world.faults().add(Rule::refusal(503).verb("patch").resource("pods"));
    world.create(pod("a", 1, json!({}))).await;
    world.struck(1).await;
    world.handle().stop().await.unwrap();
    world.faults().clear();
    // That nothing comes takes a while to see: longer than the next attempts would be away.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let untouched = world.phase("a", "Pending").await;
    assert_eq!(untouched["status"]["containerStatuses"], Value::Null);
    world.handle().restart().await.unwrap();
    world.phase("a", "Running").await;
    world.close().await;
}

#[tokio::test]
async fn stopping_does_not_wait_for_writes_that_never_succeed() {
    let world = faulty().await;
    world.faults().add(Rule::refusal(503).verb("patch").resource("pods"));
    world.create(pod("a", 1, json!({}))).await;
    world.struck(2).await;
    let tasks = world.kubelets.tasks.clone();
    tokio::time::timeout(Duration::from_secs(20), world.close()).await.unwrap();
    assert!(tasks.is_empty());
}
