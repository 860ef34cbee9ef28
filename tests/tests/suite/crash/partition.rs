//! A leader that cannot reach the API server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use muster_tests::World;
use muster_tests::world::PATIENCE;
use muster_tests::world::coordinators::Choices;

use crate::suite::ranktable::{delivered, file_of, generation, records, table, worker};

/// A real API server shares its cores with much else: a lease must outlast its pauses.
fn lease() -> Duration {
    Duration::from_secs(if World::is_real() { 4 } else { 1 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_before_another_leads_and_its_late_write_loses() -> Result<()>
{
    let pause = Some(Duration::from_millis(200));
    let choices = Choices { lease: lease(), pause, ..Choices::default() };
    World::new().nodes(2).choices(choices).agents().run(cut_off).await
}

async fn cut_off(world: &mut World) -> Result<()> {
    let (old, wire) = world.wired_coordinator().await?;
    let new = world.add_coordinator().await?;
    for name in ["a", "b"] {
        world.create_object(worker(name, "split", 2, 8)).await?;
    }
    let first = delivered(world, "split", 1).await?;

    // The next table is made, but its record is long on its way.
    let mut held = wire.hold_apply("/configmaps/split-ranktable");
    world.api::<Pod>().delete("b", &DeleteParams::default().grace_period(0)).await?;
    world.create_object(worker("c", "split", 2, 8)).await?;
    tokio::time::timeout(PATIENCE, held.caught()).await.context("nothing was written")??;
    let cut = Instant::now();
    wire.cut();
    let stopped = loop {
        let state = |number| {
            let all = world.coordinators()?;
            let one = all.iter().find(|one| one.number == number).context("gone")?;
            let open = !one.coordinator().hub().sessions().is_empty();
            anyhow::Ok((one.leads(), open))
        };
        let (before, after) = (state(new)?, state(old)?);
        ensure!(!(before.0 || before.1) || !(after.0 || after.1), "two lead");
        if after == (false, false) {
            break cut.elapsed();
        }
        ensure!(cut.elapsed() < PATIENCE, "it leads on");
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    world.until_leads(new).await?;
    println!("it stopped {stopped:.2?} after the cut, another led after {:.2?}", cut.elapsed());

    let second = delivered(world, "split", generation(&first) + 1).await?;
    let answer = tokio::time::timeout(PATIENCE, held.release()).await.context("no answer")??;
    assert_eq!(answer, 409, "the late write loses");
    wire.mend();
    let now = records(world).get("split-ranktable").await?;
    assert_eq!((generation(&now), table(&now)), (generation(&second), table(&second)));
    for pod in world.pods("muster.dev/rank-group=split").await? {
        if pod.metadata.deletion_timestamp.is_none() {
            assert_eq!(file_of(world, &pod)?, table(&second), "{}", pod.name_any());
        }
    }
    Ok(())
}
