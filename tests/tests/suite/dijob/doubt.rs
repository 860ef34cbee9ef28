//! What a coordinator sees may be old, refused, or not its own.

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use muster_sandbox::faults::Rule;
use muster_tests::World;
use muster_tests::world::dijob::{Caller, selector};
use muster_tests::world::{Seen, Wire};
use serde_json::{Value, json};

use super::running;

/// Reconciles of DIJobs by the leader.
fn reconciles(world: &World) -> Result<u64> {
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &leader.coordinator().status().registry)?;
    let of_dijobs = |line: &&str| line.starts_with("muster_reconcile_total{controller=\"dijob\"");
    let counts = text.lines().filter(of_dijobs).filter_map(|line| line.split(' ').nth(1));
    Ok(counts.filter_map(|count| count.parse::<u64>().ok()).sum())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_has_ended_unseen_is_not_begun_again() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            let (_, wire) = world.wired_coordinator().await?;
            running(world, "ended", "All").await?;
            // Another one has led meanwhile, and this one has not heard of the end.
            wire.freeze("/dijobs");
            let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
            let params = PatchParams::default();
            world.dijobs().patch_status("ended", &params, &ended).await?;
            let before = reconciles(world)?;
            let pods: Api<k8s_openapi::api::core::v1::Pod> = world.api();
            let gone = DeleteParams::default().grace_period(0);
            pods.delete("ended-coordinator", &gone).await?;
            world
                .until("a reconcile of a coordinator that does not know", async || {
                    let now = reconciles(world)?;
                    let none = pods.get_opt("ended-coordinator").await?.is_none();
                    let seen = format!("{now} reconciles, gone: {none}");
                    Ok(if now > before && none { Seen::Yes(()) } else { Seen::NotYet(seen) })
                })
                .await?;
            wire.thaw();
            // When another job runs, this one has been looked at again.
            running(world, "next", "All").await?;
            ensure!(pods.get_opt("ended-coordinator").await?.is_none(), "it runs again");
            let job = world.dijobs().get("ended").await?;
            assert_eq!(job.data["status"]["phase"], "Succeeded");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_meets_a_conflict_is_written_in_the_end() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: a real server fails when it likes");
        return Ok(());
    }
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            let faults = world.sandbox().context("a sandbox")?.faults();
            let dijobs = "dijobs.diengine.opendilab.org";
            faults.add(Rule::refusal(409).verb("patch").resource(dijobs).times(4));
            running(world, "disputed", "All").await?;
            assert_eq!(faults.struck(), 4);
            faults.clear();
            // Somebody changes the job while its status is written.
            for number in 0..5 {
                let note = json!({"metadata": {"annotations": {"turn": number.to_string()}}});
                world
                    .dijobs()
                    .patch("disputed", &PatchParams::default(), &Patch::Merge(note))
                    .await?;
            }
            world.gate().open();
            let status = world.dijob_is("disputed", "Succeeded").await?;
            let kinds = status["conditions"].as_array().map_or(0, Vec::len);
            assert_eq!(kinds, 3, "each phase once: {status}");
            let job = world.dijobs().get("disputed").await?;
            assert_eq!(job.annotations().get("turn").map(String::as_str), Some("4"));
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_not_seen_all_yet_asks_to_try_again() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            running(world, "early", "Running").await?;
            let wire = Wire::new();
            wire.freeze("/dijobs");
            let number = world.add_coordinator_with(|client| wire.client(client)).await?;
            let all = world.coordinators()?;
            let new = all.iter().find(|one| one.number == number).context("it is gone")?;
            let caller = Caller::new(new.coordinator().addresses().di_server).await?;
            let mut caller = caller.with_token(&world.di_token().await?);
            let space = world.namespace().to_owned();
            let (status, said) = caller.query(&space, "early-coordinator").await?;
            let text = said["message"].as_str().unwrap_or_default();
            assert_eq!((status, text), (503, "the caches are not filled yet: try again"));
            let none = json!({"replicas": 0});
            let (status, _) = caller.create(&space, "early-coordinator", &none, &none).await?;
            assert_eq!(status, 503);
            assert_eq!(caller.ask("GET", "/readyz", "").await?.0, 503);
            assert_eq!(caller.ask("GET", "/healthz", "").await?.0, 200);
            wire.thaw();
            world
                .until("an answer", async || {
                    let (status, said) = caller.query(&space, "early-coordinator").await?;
                    Ok(if status == 200 { Seen::Yes(()) } else { Seen::NotYet(said.to_string()) })
                })
                .await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_with_our_labels_that_is_not_ours_is_neither_listed_nor_counted_nor_deleted()
-> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            running(world, "host", "All").await?;
            let stranger = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "host-collector-abcde", "labels": {
                    "group-name": "diengine.opendilab.org", "dijob-name": "host",
                    "controller-name": "di-operator", "replica-type": "collector",
                    "pod-name": "host-collector-abcde"}},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "di-container", "image": "ding"}]}});
            world.create_object(stranger).await?;
            world.pods_in(&selector("host"), 2, "Running").await?;
            let space = world.namespace().to_owned();
            let mut caller = world.di_caller().await?;
            let (one, none) = (json!({"replicas": 1}), json!({"replicas": 0}));
            let (status, made) = caller.create(&space, "host-coordinator", &one, &none).await?;
            ensure!(status == 200, "{made}");
            let (_, listed) = caller.query(&space, "host-coordinator").await?;
            assert_eq!(listed["data"]["collectors"], made["data"]["collectors"]);
            world
                .until("the counters", async || {
                    let status = world.dijob_is("host", "Running").await?;
                    let counted = status["replicaStatus"]["Collector"]["active"] == 1;
                    Ok(if counted { Seen::Yes(()) } else { Seen::NotYet(status.to_string()) })
                })
                .await?;
            // All that are asked for go, and it is none of them.
            let body = json!({"namespace": space, "coordinator": "host-coordinator", "collectors": {"replicas": 5}});
            let (_, gone) = caller.ask("DELETE", "/v1alpha1/replicas", body.to_string()).await?;
            let gone: &Value = &gone["data"]["collectors"];
            assert_eq!(*gone, made["data"]["collectors"]);
            world.gate().open();
            world.dijob_is("host", "Succeeded").await?;
            world
                .until("the end of the job's own pods", async || {
                    let pods = world.pods(&selector("host")).await?;
                    let left: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
                    let alone = left == ["host-collector-abcde"];
                    Ok(if alone { Seen::Yes(()) } else { Seen::NotYet(format!("{left:?}")) })
                })
                .await?;
            let services = super::services(world, "host").await?;
            ensure!(services.is_empty(), "{services:?}");
            Ok(())
        })
        .await
}
