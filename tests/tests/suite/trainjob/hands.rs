//! Others write too: runtimes come late, are changed and deleted; JobSets are edited and deleted by hand.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::jobset::selector;
use serde_json::{Value, json};

use super::groups::{definition, forget, groups};
use super::{complete, event, held, job, torch, workload};

/// As if the webhook had never been installed.
async fn without_validation(world: &World) -> Result<()> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client());
    api.delete("muster-coordinator", &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_runtime_is_not_there_says_so_and_goes_on_when_it_comes() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            without_validation(world).await?;
            world
                .until("a job without a runtime", async || {
                    Ok(Seen::Yes(world.create_object(job("early", "late", 1)).await?))
                })
                .await?;
            let note = event(world, "early", "TrainJobResourcesCreationFailed").await?;
            let expected = format!(
                "TrainJob resources reconciliation failed: not found ClusterTrainingRuntime specified in \
                 TrainJob: clustertrainingruntimes.trainer.kubeflow.org \"{}\" not found",
                world.own("late")
            );
            assert_eq!(note, expected);
            world.create_object(torch("late", held())).await?;
            workload(world, "early").await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_a_kind_of_runtime_that_is_not_known_fails() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            without_validation(world).await?;
            let mut odd = job("odd", "plain", 1);
            odd["spec"]["runtimeRef"]["kind"] = json!("LocalRuntime");
            world
                .until("a job without a runtime", async || {
                    Ok(Seen::Yes(world.create_object(odd.clone()).await?))
                })
                .await?;
            let said = world.trainjob_is("odd", "Failed", "True").await?;
            let message = "unsupported runtime: LocalRuntime.trainer.kubeflow.org";
            assert_eq!(said, ("TrainingRuntimeNotSupported".to_owned(), message.to_owned()));
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_is_changed_and_deleted_stays_what_it_was_for_its_jobs() -> Result<()> {
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("fleeting", held())).await?;
            world.train(job("steady", "fleeting", 1)).await?;
            world.pods_in(&selector("steady"), 1, "Running").await?;
            let (api, fleeting) = (world.cluster_runtimes(), &world.own("fleeting"));
            let path = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image";
            let other = json!([{"op": "replace", "path": path, "value": "other:1"}]);
            let other = Patch::<()>::Json(serde_json::from_value(other)?);
            api.patch(fleeting, &PatchParams::default(), &other).await?;
            api.delete(fleeting, &DeleteParams::default()).await?;
            let there = api.get(fleeting).await?;
            ensure!(there.metadata.deletion_timestamp.is_some(), "it waits for its jobs");
            // What runs is lost, and made again as it was.
            world.jobsets().delete("steady", &DeleteParams::background()).await?;
            let again = world
                .until("another JobSet", async || {
                    let found = world.jobsets().get_opt("steady").await?;
                    let found = found.filter(|it| it.metadata.deletion_timestamp.is_none());
                    Ok(match found {
                        Some(found) => Seen::Yes(serde_json::to_value(found)?),
                        None => Seen::NotYet("none".to_owned()),
                    })
                })
                .await?;
            let image = again.pointer(&path.replace("/spec/template/spec/replicated", "/spec/replicated"));
            assert_eq!(image, Some(&json!(muster_tests::world::HOLD)), "{}", again["spec"]);
            world.gate().open();
            complete(world, "steady").await?;
            world.trainjobs().delete("steady", &DeleteParams::default()).await?;
            world
                .until("the end of the runtime", async || {
                    let found = api.get_opt(fleeting).await?;
                    Ok(found.map_or(Seen::Yes(()), |it| {
                        Seen::NotYet(format!("{:?}", it.metadata.finalizers))
                    }))
                })
                .await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_do_to_a_suspended_jobs_objects_is_undone_and_what_runs_is_left() -> Result<()>
{
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .run(async |world| {
            let mut pod = held();
            pod["metadata"]["annotations"] = json!({"flavour": "ours"});
            world.create_object(torch("plain", pod)).await?;
            let mut suspended = job("edited", "plain", 2);
            suspended["spec"]["suspend"] = json!(true);
            world.train(suspended).await?;
            workload(world, "edited").await?;
            let sets = world.jobsets();
            let restored = async |what: &str, path: &str, wanted: Value| -> Result<()> {
                world
                    .until(what, async || {
                        let set = world.jobset("edited").await?;
                        let now = set.pointer(path).cloned().unwrap_or_default();
                        let seen = now.to_string();
                        Ok(if now == wanted { Seen::Yes(()) } else { Seen::NotYet(seen) })
                    })
                    .await
            };
            // By hand.
            let hand = Patch::Merge(json!({"spec": {"suspend": false}}));
            sets.patch("edited", &PatchParams::default(), &hand).await?;
            restored("suspended again", "/spec/suspend", json!(true)).await?;
            // By another manager, who takes the field by force.
            let flavour =
                "/spec/replicatedJobs/0/template/spec/template/metadata/annotations/flavour";
            let theirs = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                "metadata": {"name": "edited"},
                "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template":
                    {"metadata": {"annotations": {"flavour": "theirs"}}}}}}]}});
            let force = PatchParams::apply("somebody").force();
            sets.patch("edited", &force, &Patch::Apply(theirs)).await?;
            restored("our flavour", flavour, json!("ours")).await?;
            // What runs is theirs.
            super::change(world, "edited", json!({"spec": {"suspend": false}})).await?;
            world.pods_in(&selector("edited"), 2, "Running").await?;
            let label = Patch::Merge(json!({"metadata": {"labels": {"by": "hand"}}}));
            sets.patch("edited", &PatchParams::default(), &label).await?;
            world.gate().open();
            complete(world, "edited").await?;
            let set = world.jobset("edited").await?;
            assert_eq!(set["metadata"]["labels"]["by"], "hand", "what runs is never changed");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_is_somebody_elses_is_named_and_left() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "blocked-runtime-snapshot"}, "data": {"runtime": "mine"}});
            world.create_object(map).await?;
            world.train(job("blocked", "plain", 1)).await?;
            let note = event(world, "blocked", "TrainJobResourcesCreationFailed").await?;
            ensure!(note.contains("owned by another object"), "{note}");
            let maps = world.api::<ConfigMap>();
            let map = maps.get("blocked-runtime-snapshot").await?;
            assert_eq!(map.data.context("no data")?["runtime"], "mine");
            maps.delete("blocked-runtime-snapshot", &DeleteParams::default()).await?;
            workload(world, "blocked").await?;
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_is_deleted_is_away_for_a_second_whatever_happens_and_comes_back_by_itself()
-> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            world.create_object(torch("plain", held())).await?;
            world.train(job("forgetful", "plain", 1)).await?;
            let maps = world.api::<ConfigMap>();
            let snapshot = async |besides: Option<String>| {
                world
                    .until("a snapshot", async || {
                        let found = maps.get_opt("forgetful-runtime-snapshot").await?;
                        let found = found.filter(|it| it.metadata.uid != besides);
                        Ok(found.map_or(Seen::NotYet("none".to_owned()), Seen::Yes))
                    })
                    .await
            };
            let first = snapshot(None).await?;
            // The first look is still at work: what it has written since, and what others write, wakes the next one.
            let begun = Instant::now();
            let nothing = DeleteParams::default();
            maps.delete("forgetful-runtime-snapshot", &nothing).await?;
            let touched = json!({"metadata": {"annotations": {"by": "hand"}}});
            super::change(world, "forgetful", touched).await?;
            workload(world, "forgetful").await?;
            let touched = Patch::Merge(json!({"metadata": {"labels": {"by": "hand"}}}));
            world.jobsets().patch("forgetful", &PatchParams::default(), &touched).await?;
            let second = snapshot(first.metadata.uid.clone()).await?;
            let away = begun.elapsed();
            ensure!(away >= Duration::from_secs(1), "made again after {away:?}");
            let runtime = second.data.context("no data")?["runtime"].clone();
            ensure!(runtime.contains(&format!("name: {}\n", world.own("plain"))), "{runtime}");
            // The job goes on as before.
            super::change(world, "forgetful", json!({"spec": {"suspend": true}})).await?;
            world.trainjob_is("forgetful", "Suspended", "True").await?;
            let third = maps.get("forgetful-runtime-snapshot").await?;
            assert_eq!(third.metadata.uid, second.metadata.uid, "it is made once");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_needs_a_kind_which_the_cluster_learns_later_goes_on_then() -> Result<()> {
    const GROUP: &str = "scheduling.x-k8s.io";
    World::new()
        .coordinators(1)
        .run(async |world| {
            let mut gang = torch("gang", held());
            gang["spec"]["podGroupPolicy"] =
                json!({"coscheduling": {"scheduleTimeoutSeconds": 30}});
            world.create_object(gang).await?;
            world.train(job("together", "gang", 3)).await?;
            let note = event(world, "together", "TrainJobResourcesCreationFailed").await?;
            ensure!(note.contains("PodGroup together"), "{note}");
            world.create_object(definition(GROUP, "v1alpha1")).await?;
            workload(world, "together").await?;
            let group = groups(world, GROUP, "v1alpha1").get("together").await?;
            assert_eq!(group.data["spec"]["minMember"], 3, "{}", group.data);
            forget(world, GROUP).await
        })
        .await
}
