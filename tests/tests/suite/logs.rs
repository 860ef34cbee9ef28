//! Logs: what a container writes can be read while it runs.

use anyhow::{Context, Result};
use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::{PATIENCE, Seen, jobset::phase};

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: talker
  annotations: {sandbox.muster.dev/run-seconds: '2'}
spec:
  restartPolicy: Never
  containers: [{name: main, image: example.com/talker:1}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_followed_goes_on_until_the_container_ends() -> Result<()> {
    if World::is_real() {
        println!(
            "left out: a real server asks the kubelet itself, and ours serves no logs over HTTP"
        );
        return Ok(());
    }
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .run(async |world| {
            world.create(POD).await?;
            let pods = world.api::<Pod>();
            world
                .until("the pod runs", async || {
                    let pod = pods.get("talker").await?;
                    Ok(match phase(&pod) {
                        "Running" => Seen::Yes(()),
                        other => Seen::NotYet(other.to_owned()),
                    })
                })
                .await?;
            let follow = LogParams { follow: true, ..LogParams::default() };
            let mut stream = Box::pin(pods.log_stream("talker", &follow).await?);
            let mut text = String::new();
            let read = stream.read_to_string(&mut text);
            tokio::time::timeout(PATIENCE, read).await.context("the log has no end")??;
            // Its first line was there when it was opened, its last came with the end.
            assert!(text.lines().count() >= 2, "the log ended too soon: {text:?}");
            let pod = pods.get("talker").await?;
            assert_ne!(phase(&pod), "Pending");
            Ok(())
        })
        .await
}
