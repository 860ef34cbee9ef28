//! JobSets from their creation to their end.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::names;
use muster_tests::World;
use muster_tests::world::jobset::{phase, selector};
use muster_tests::world::{Ended, HOLD};
use serde_json::json;

use super::workload::{NPU, jobset, replicated, template};

fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jobset_runs_to_completion_and_no_two_of_its_pods_share_a_device() -> Result<()> {
    let plan = World::new().nodes(2).nodes_of(Profile::NvidiaH1008, 1);
    plan.run(async |world| {
        let npu = replicated("npu", 2, 2, template(HOLD, NPU, 4, json!({})));
        let gpu = replicated("gpu", 1, 2, template(HOLD, "nvidia.com/gpu", 3, json!({})));
        world.create_object(jobset("mixed", 0, vec![npu, gpu])).await?;
        let running = world.pods_in(&selector("mixed"), 6, "Running").await?;

        let mut given = BTreeSet::new();
        for pod in &running {
            let held = world.devices(pod).await?;
            let expected = if pod.name_any().contains("-npu-") {
                (NPU.to_owned(), 4)
            } else {
                ("nvidia.com/gpu".to_owned(), 3)
            };
            let counts: Vec<(String, usize)> =
                held.iter().map(|(resource, ids)| (resource.clone(), ids.len())).collect();
            assert_eq!(counts, [expected], "{}", pod.name_any());
            for id in held.into_values().flatten() {
                let fresh = given.insert((node_of(pod), id.clone()));
                assert!(fresh, "{id} of {} is given twice", node_of(pod));
            }
        }
        assert_eq!(given.len(), 4 * 4 + 2 * 3);

        world.gate().open();
        assert_eq!(world.jobset_ends("mixed").await?, Ended::Completed);
        for pod in world.pods(&selector("mixed")).await? {
            assert_eq!(phase(&pod), "Succeeded", "{}", pod.name_any());
            let held = world.devices(&pod).await?;
            assert!(held.is_empty(), "{} has ended and holds {held:?}", pod.name_any());
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_pod_makes_its_jobset_start_again_and_then_fail() -> Result<()> {
    World::new()
        .nodes(1)
        .run(async |world| {
            let annotations = json!({ names::RUN_SECONDS: "0", names::EXIT_CODE: "3" });
            let jobs = replicated("worker", 1, 1, template("i", NPU, 1, annotations));
            let made = world.create_object(jobset("doomed", 1, vec![jobs])).await?;
            ensure!(made.pointer("/status/restarts").is_none_or(|n| n == 0), "{made}");
            assert_eq!(world.jobset_ends("doomed").await?, Ended::Failed);
            let set = world.jobset("doomed").await?;
            assert_eq!(set["status"]["restarts"], 1, "{}", set["status"]);
            let pods = world.pods(&selector("doomed")).await?;
            let attempts: Vec<Option<&String>> = pods
                .iter()
                .map(|pod| pod.labels().get("jobset.sigs.k8s.io/restart-attempt"))
                .collect();
            assert_eq!(attempts, [Some(&"1".to_owned())], "only the second attempt is left");
            let ended = pods[0].status.as_ref().and_then(|s| s.container_statuses.as_ref());
            let ended = ended.and_then(|all| all[0].state.clone()).and_then(|s| s.terminated);
            assert_eq!(ended.map(|ended| ended.exit_code), Some(3));
            Ok(())
        })
        .await
}
