//! Coordinators die at every write of a gang's way to its nodes, and of another's that has to make room.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use muster_tests::World;
use muster_tests::world::scheduling::{SCHEDULER, SET, node, waiting_pod};
use muster_tests::world::{HOLD, Seen, Side};
use serde_json::{Value, json};

use super::play::Stage;
use crate::suite::scheduling::ledger::Ledger;
use crate::suite::workload::{NPU, template};

/// A job of two pods that fill both nodes, as one gang.
fn greedy(name: &str, queue: &str) -> Value {
    let mut template = template(HOLD, NPU, 8, json!({}));
    template["spec"]["schedulerName"] = json!(SCHEDULER);
    template["metadata"]["labels"] = json!({SET: format!("{name}-greedy")});
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": format!("{name}-greedy"),
            "labels": {"kai.scheduler/queue": queue},
            "annotations": {"kai.scheduler/batch-min-member": "2"}},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 100, "template": template}})
}

/// Creates an object, whoever is killed meanwhile.
async fn create(stage: &mut Stage, object: Value) -> Result<()> {
    let made = async |world: &World| {
        let exists = world.create_object(object.clone()).await;
        Ok(match exists {
            Ok(_) => Seen::Yes(()),
            Err(error) if format!("{error:#}").contains("already exists") => Seen::Yes(()),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        })
    };
    stage.until("a creation", made).await
}

async fn placed(stage: &mut Stage, set: &str, count: usize) -> Result<()> {
    let look = async |world: &World| {
        let pods = world.pods_of(set).await?;
        let stays = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
        let has = pods.iter().filter(stays).filter(|pod| node(pod).is_some()).count();
        let shown = || format!("{has} of {} pods of {set} have nodes", pods.len());
        Ok(if has == count { Seen::Yes(()) } else { Seen::NotYet(shown()) })
    };
    stage.until(&format!("{count} pods of {set} with nodes"), look).await
}

/// A job takes all there is; then one that is due a half gets it.
async fn life(stage: &mut Stage, name: &str) -> Result<Vec<String>> {
    let ledger = Ledger::new(&stage.world, NPU).await?;
    let queue = |part: &str| format!("{name}-{part}");
    stage.world.queue(&queue("all"), "", -1.0, -1.0).await?;
    stage.world.queue(&queue("greedy"), &queue("all"), 0.0, -1.0).await?;
    stage.world.queue(&queue("due"), &queue("all"), 8.0, -1.0).await?;
    let greedy = greedy(name, &stage.world.own(&queue("greedy")));
    create(stage, greedy).await?;
    placed(stage, &queue("greedy"), 2).await?;
    let due = queue("due");
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": due}, "spec": {"queue": due, "minMember": 2}});
    create(stage, group).await?;
    for number in 0..2 {
        create(stage, waiting_pod(&due, number, &due, NPU, 4)).await?;
    }
    placed(stage, &due, 2).await?;
    let writes = stage.guillotine.writes();
    stage.guillotine.arm(None);
    clear(stage, name).await?;
    ledger.judge()?;
    Ok(writes)
}

async fn clear(stage: &mut Stage, name: &str) -> Result<()> {
    let job = format!("{name}-greedy");
    stage.world.api::<Job>().delete(&job, &DeleteParams::background()).await?;
    let now = DeleteParams::default().grace_period(0);
    for set in [format!("{name}-greedy"), format!("{name}-due")] {
        let which = ListParams::default().labels(&format!("{SET}={set}"));
        stage.world.api::<Pod>().delete_collection(&now, &which).await?;
        let gone = async |world: &World| {
            let left = world.pods_of(&set).await?.len();
            Ok(if left == 0 { Seen::Yes(()) } else { Seen::NotYet(format!("{left} pods")) })
        };
        stage.until("the end of its pods", gone).await?;
    }
    Ok(())
}

async fn walk(side: Side) -> Result<()> {
    let begun = Instant::now();
    Stage::run(async |stage| {
        stage.guillotine.arm(None);
        let writes = life(stage, "bound-dry").await.context("without a kill")?;
        println!("{} writes: {writes:#?}", writes.len());
        let bindings = writes.iter().filter(|write| write.contains("/binding")).count();
        let evictions = writes.iter().filter(|write| write.contains("/eviction")).count();
        ensure!(bindings >= 4 && evictions >= 2, "{bindings} bindings, {evictions} evictions");
        let chosen = super::chosen(writes.len());
        for at in chosen.iter().copied() {
            let since = Instant::now();
            stage.guillotine.arm(Some((at, side)));
            let lived = life(stage, &format!("bound-{at}")).await;
            let done = stage.guillotine.writes();
            lived.with_context(|| format!("killed {side:?} write {at} of {done:#?}"))?;
            println!("{at} {side:?}: {} kills, {:.1?}", stage.kills, since.elapsed());
        }
        println!("{} kills at {} writes, {:.1?}", stage.kills, writes.len(), begun.elapsed());
        // How often a status is written on the way is chance.
        ensure!(stage.kills * 2 >= chosen.len(), "only {} kills", stage.kills);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_any_write_gangs_are_bound_whole_and_no_device_is_given_twice() -> Result<()>
{
    walk(Side::Before).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_any_write_gangs_are_bound_whole_and_no_device_is_given_twice() -> Result<()> {
    walk(Side::After).await
}
