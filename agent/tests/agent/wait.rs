//! From an order to the init container.

use std::time::Duration;

use muster_agent::wait::wait;

use super::deliver::{Node, order, pack};

#[tokio::test(flavor = "multi_thread")]
async fn a_container_waits_until_its_completed_table_is_delivered() {
    let node = Node::new();
    node.add_pod(1);
    let file = node.table(1);
    // The volume is not even there when waiting begins.
    let waiting = tokio::task::spawn_blocking(move || {
        let mut out = Vec::new();
        let told = wait(&file, Some(Duration::from_secs(30)), &mut out);
        told.map(|()| String::from_utf8(out).unwrap())
    });
    std::fs::create_dir_all(node.volume(1)).unwrap();
    for (generation, content) in
        [(1, &b"{\"status\":\"initializing\"}"[..]), (2, b"{\"status\":\"completed\",\"n\":[1]}")]
    {
        assert!(!waiting.is_finished());
        let told = node.deliverer.deliver(1, order(1, generation, content), pack(content)).await;
        told.unwrap();
    }
    let out = waiting.await.unwrap().unwrap();
    assert!(out.ends_with("\n{\"status\":\"completed\",\"n\":[1]}\n"), "{out}");
    assert!(out.contains(" is ready: "), "{out}");
}
