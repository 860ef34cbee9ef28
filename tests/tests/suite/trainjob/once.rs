//! Keys and snapshots are made once: a leader whose watch lags finds out when it writes, and keeps what is there.

use anyhow::{Context, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::PostParams;
use muster_tests::World;
use muster_tests::world::PATIENCE;
use serde_json::{Value, json};

use super::{held, job, mpi, workload};

/// What an earlier leader would have made, who was faster.
fn owned(owner: &Value, name: &str) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "controller": true,
        "blockOwnerDeletion": true, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_made_once_and_was_not_seen_yet_is_kept() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let (_, wire) = world.wired_coordinator().await?;
            world.create_object(mpi("mpi", held(), held())).await?;
            let space = format!("/namespaces/{}", world.namespace());

            let mut map = wire.hold_create(&format!("{space}/configmaps"));
            let made = world.train(job("slow", "mpi", 2)).await?;
            tokio::time::timeout(PATIENCE, map.caught()).await.context("no snapshot")??;
            let mut earlier = owned(&made, "slow-runtime-snapshot");
            let runtime = world.cluster_runtimes().get(&world.own("mpi")).await?;
            let mut runtime = serde_json::to_value(runtime)?;
            runtime["metadata"]["managedFields"] = Value::Null;
            runtime["metadata"]["labels"] = json!({"kept-by": "an-earlier-leader"});
            // JSON is YAML too.
            earlier["data"] = json!({"runtime": runtime.to_string()});
            let (maps, secrets) = (world.api::<ConfigMap>(), world.api::<Secret>());
            let params = PostParams::default();
            let earlier = maps.create(&params, &serde_json::from_value(earlier)?).await?;

            let mut secret = wire.hold_create(&format!("{space}/secrets"));
            assert_eq!(map.release().await?, 409, "it is there");
            tokio::time::timeout(PATIENCE, secret.caught()).await.context("no keys")??;
            let mut key = owned(&made, "slow-mpi-ssh-auth");
            key["stringData"] = json!({"ssh-privatekey": "private", "ssh-publickey": "public"});
            key["type"] = json!("kubernetes.io/ssh-auth");
            let key = secrets.create(&params, &serde_json::from_value(key)?).await?;
            assert_eq!(secret.release().await?, 409, "it is there");

            workload(world, "slow").await?;
            let found = maps.get("slow-runtime-snapshot").await?;
            assert_eq!((found.uid(), &found.data), (earlier.uid(), &earlier.data));
            let found = secrets.get("slow-mpi-ssh-auth").await?;
            assert_eq!(found.uid(), key.uid());
            let data = found.data.context("no data")?;
            assert_eq!(data.get("ssh-privatekey"), Some(&ByteString(b"private".to_vec())));
            ensure!(world.trainjob("slow").await?["metadata"]["uid"] == made["metadata"]["uid"]);
            Ok(())
        })
        .await
}
