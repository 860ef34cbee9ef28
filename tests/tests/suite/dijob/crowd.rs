//! Many callers at once: every answer is true afterwards, nothing is made twice, and nobody waits for long.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use muster_tests::World;
use muster_tests::dijobs::{Crowd, urls};
use serde_json::json;

use super::running;

/// A debug build has twice the time.
const ROUND: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 1000 });

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_of_fifty_jobs_are_told_the_truth() -> Result<()> {
    let crowd = Crowd { clients: 200, jobs: 50, round: ROUND };
    crowd.plan().run(async |world| crowd.ask(world).await.map(drop)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_delete_at_once_never_get_the_same_replica() -> Result<()> {
    World::new()
        .bare_nodes_of(muster_sandbox::hardware::Profile::Ascend910b8, 1)
        .coordinators(1)
        .run(async |world| {
            running(world, "shrink", "Running").await?;
            let space = world.namespace().to_owned();
            let mut caller = world.di_caller().await?;
            let none = json!({"replicas": 0});
            let twenty = json!({"replicas": 20});
            let (status, _) = caller.create(&space, "shrink-coordinator", &twenty, &none).await?;
            ensure!(status == 200);
            let mut clients = tokio::task::JoinSet::new();
            for _ in 0..10 {
                let mut caller = world.di_caller().await?;
                let body = json!({"namespace": space, "coordinator": "shrink-coordinator", "collectors": {"replicas": 3}});
                clients.spawn(async move { caller.ask("DELETE", "/v1alpha1/replicas", body.to_string()).await });
            }
            let mut gone = Vec::new();
            while let Some(said) = clients.join_next().await {
                gone.extend(urls(&said??.1));
            }
            let distinct: BTreeSet<&String> = gone.iter().collect();
            assert_eq!((gone.len(), distinct.len()), (20, 20), "all go, each once");
            Ok(())
        })
        .await
}
