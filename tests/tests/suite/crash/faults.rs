//! An API server that answers with errors now and then.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_sandbox::faults::{Fault, Rule};
use muster_tests::World;

use super::play::{Home, Stage};
use crate::suite::ranktable::generation;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_faults_of_the_api_tables_still_come_and_no_generation_comes_twice() -> Result<()> {
    if World::is_real() {
        eprintln!("left out: a real server fails when it likes");
        return Ok(());
    }
    Stage::run(async |stage| {
        let mut struck = 0;
        for (homes, group) in
            [([Home::Agent, Home::Agent], "hardy"), ([Home::Volume, Home::Agent], "sturdy")]
        {
            let mut play = stage.play(group).await?;
            let faults = || play_faults(&play.stage.world);
            for code in [429, 500, 503] {
                faults()?.add(Rule::refusal(code).resource("configmaps").verb("patch").chance(0.1));
                faults()?
                    .add(Rule::refusal(code).resource("configmaps").verb("create").chance(0.1));
                faults()?.add(Rule::refusal(code).resource("pods").verb("patch").chance(0.1));
            }
            faults()?.add(Rule::refusal(500).resource("events.events.k8s.io").chance(0.5));
            faults()?.add(Rule::refusal(500).resource("leases.coordination.k8s.io").chance(0.1));
            faults()?.add(Rule::new(Fault::DropWatches).resource("pods").chance(0.02));
            let slow = Fault::Latency(Duration::from_millis(400));
            faults()?.add(Rule::new(slow).resource("configmaps").verb("patch").chance(0.1));
            play.pod("a", homes[0], 0).await?;
            play.pod("b", homes[1], 1).await?;
            let first = play.delivered(1).await?;
            play.delete("b").await?;
            play.pod("c", homes[1], 1).await?;
            let second = play.delivered(generation(&first) + 1).await?;
            struck += play_faults(&play.stage.world)?.struck();
            play_faults(&play.stage.world)?.clear();
            ensure!((generation(&first), generation(&second)) == (1, 2), "more than two tables");
            play.end().await?;
        }
        println!("{struck} faults struck");
        ensure!(struck > 3, "only {struck} faults struck");
        Ok(())
    })
    .await
}

fn play_faults(world: &World) -> Result<&muster_sandbox::faults::Faults> {
    Ok(world.sandbox().context("a sandbox")?.faults())
}
