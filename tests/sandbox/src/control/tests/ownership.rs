//! Owners and dependents: rings, changes that the watch has not told, and the two slow deletions.

use super::*;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MERGE: &str = "application/merge-patch+json";

fn reference(owner: &Value, blocks: bool) -> Value {
    let kind =
        if read::text(owner, "/kind").is_empty() { "Secret" } else { read::text(owner, "/kind") };
    json!({"apiVersion": "v1", "kind": kind, "name": meta::name(owner), "uid": meta::uid(owner),
        "blockOwnerDeletion": blocks})
}

fn mk(name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers}})
}

impl World {
    /// From now on the controllers are told nothing of these.
    fn blind(&self, resource: &str) {
        self.0.faults().add(Rule::refusal(500).verb("watch").resource(resource));
        self.0.api().store.drop_watches(Some(resource));
    }

    /// Returns when the collector has dealt with all ConfigMaps made before.
    async fn settled(&self) {
        let ghost = json!({"kind": "Secret", "metadata": {"name": "never-was", "uid": "0"}});
        self.post(MAPS, &mk("lost", &[reference(&ghost, true)], &[])).await;
        self.until_gone(&format!("{MAPS}/lost")).await;
    }

    async fn own(&self, dependent: &str, owner: &Value) {
        let patch = json!({"metadata": {"ownerReferences": [reference(owner, true)]}});
        self.insist("PATCH", &format!("{SECRETS}/{dependent}"), MERGE, &patch).await;
    }

    async fn release(&self, path: &str) {
        self.insist("PATCH", path, MERGE, &json!({"metadata": {"finalizers": null}})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_of_owners_dissolves_in_the_foreground() {
    for (members, deleted) in [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3)] {
        let world = world().await;
        let mut ring = Vec::new();
        for i in 0..members {
            ring.push(world.post(SECRETS, &mk(&format!("s{i}"), &[], &[])).await);
        }
        for i in 0..members {
            world.own(&format!("s{i}"), &ring[(i + 1) % members]).await;
        }
        for i in 0..deleted {
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
                "propagationPolicy": "Foreground"});
            let path = format!("{SECRETS}/s{i}");
            world.send("DELETE", &path, "application/json", &options).await;
        }
        for i in 0..members {
            world.until_gone(&format!("{SECRETS}/s{i}")).await;
        }
        tokio::time::timeout(PATIENCE, world.0.stop()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependent_that_was_set_free_stays_though_the_watch_has_not_told() {
    let world = world().await;
    let owner = world.post(SECRETS, &mk("o", &[], &[])).await;
    for name in ["free", "bound"] {
        world.post(MAPS, &mk(name, &[reference(&owner, true)], &[])).await;
    }
    world.settled().await;
    world.blind("configmaps");
    let patch = json!({"metadata": {"ownerReferences": null}});
    world.insist("PATCH", &format!("{MAPS}/free"), MERGE, &patch).await;
    world.delete(&format!("{SECRETS}/o"), "Background").await;
    world.until_gone(&format!("{MAPS}/bound")).await;
    world.0.faults().clear();
    world.settled().await;
    assert!(world.get(&format!("{MAPS}/free")).await.is_some());
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_in_the_foreground_waits_for_a_blocker_that_the_watch_has_not_told() {
    let world = world().await;
    world.settled().await;
    world.blind("configmaps");
    let owner = world.post(SECRETS, &mk("o", &[], &[])).await;
    world.post(MAPS, &mk("d", &[reference(&owner, true)], &["example.com/hold"])).await;
    world.delete(&format!("{SECRETS}/o"), "Foreground").await;
    let path = format!("{MAPS}/d");
    let going = |map: &Value| meta::is_terminating(map).then_some(());
    world.until(&path, "the blocker to go", going).await;
    assert!(world.get(&format!("{SECRETS}/o")).await.is_some(), "the owner went first");
    world.release(&path).await;
    world.0.faults().clear();
    world.until_gone(&format!("{SECRETS}/o")).await;
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_that_the_watch_has_not_told_stays() {
    let world = world().await;
    world.settled().await;
    world.blind("configmaps");
    let owner = world.post(SECRETS, &mk("o", &[], &[])).await;
    world.post(MAPS, &mk("d", &[reference(&owner, true)], &[])).await;
    world.delete(&format!("{SECRETS}/o"), "Orphan").await;
    world.until_gone(&format!("{SECRETS}/o")).await;
    world.0.faults().clear();
    world.settled().await;
    let left = world.get(&format!("{MAPS}/d")).await.unwrap();
    assert!(meta::owners(&left).is_empty(), "{left}");
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependent_that_does_not_block_goes_while_another_holds_the_owner() {
    let world = world().await;
    let owner = world.post(SECRETS, &mk("o", &[], &[])).await;
    world.post(MAPS, &mk("b", &[reference(&owner, true)], &["example.com/hold"])).await;
    world.post(MAPS, &mk("n", &[reference(&owner, false)], &[])).await;
    world.settled().await;
    world.delete(&format!("{SECRETS}/o"), "Foreground").await;
    world.until_gone(&format!("{MAPS}/n")).await;
    assert!(world.get(&format!("{SECRETS}/o")).await.is_some(), "the owner went first");
    world.release(&format!("{MAPS}/b")).await;
    world.until_gone(&format!("{SECRETS}/o")).await;
    world.0.stop().await;
}
