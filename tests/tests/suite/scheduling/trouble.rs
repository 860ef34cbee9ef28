//! An API server that fails and watches that end: gangs still come, whole, and no device is given twice.

use anyhow::{Context, Result, ensure};
use muster_sandbox::faults::{Fault, Rule};
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::waiting_pod;
use serde_json::json;

use super::ledger::Ledger;
use crate::suite::workload::NPU;

const SEED: u64 = 11;
const GANGS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_faults_of_the_api_gangs_are_bound_whole_and_no_device_is_given_twice() -> Result<()>
{
    if World::is_real() {
        eprintln!("left out: a real server fails when it likes");
        return Ok(());
    }
    let seed = match std::env::var("MUSTER_SEED") {
        Ok(seed) => seed.parse().context("MUSTER_SEED")?,
        Err(_) => SEED,
    };
    let outcome = World::new().nodes(4).coordinators(2).seed(seed).run(async |world| {
        let ledger = Ledger::new(world, NPU).await?;
        world.queue("team", "", -1.0, -1.0).await?;
        for gang in 0..GANGS {
            let name = format!("gang-{gang}");
            for number in 0..2 {
                world.create_object(waiting_pod(&name, number, &name, NPU, 2)).await?;
            }
        }
        let faults = world.sandbox().context("a sandbox")?.faults();
        for code in [409, 429, 500, 503] {
            // A binding is the creation of a pod's subresource.
            faults.add(Rule::refusal(code).resource("pods").verb("create").chance(0.08));
            faults.add(
                Rule::refusal(code)
                    .resource("podgroups.scheduling.run.ai")
                    .verb("patch")
                    .chance(0.2),
            );
        }
        faults.add(Rule::new(Fault::DropWatches).resource("pods").chance(0.05));
        faults.add(Rule::new(Fault::Compact).chance(0.03));
        for gang in 0..GANGS {
            let name = format!("gang-{gang}");
            let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                "metadata": {"name": name}, "spec": {"queue": "team", "minMember": 2}});
            while world.create_object(group.clone()).await.is_err() {
                tokio::task::yield_now().await;
            }
        }
        for gang in 0..GANGS {
            world.placed(&format!("gang-{gang}"), 2).await?;
        }
        let struck = faults.struck();
        faults.clear();
        println!("{struck} faults struck");
        ensure!(struck > 10, "only {struck} faults struck");
        world
            .until("the ledger", async || {
                let seen = ledger.seen();
                Ok(if seen == 2 * GANGS { Seen::Yes(()) } else { Seen::NotYet(seen.to_string()) })
            })
            .await?;
        ledger.judge()
    });
    outcome.await.with_context(|| format!("MUSTER_SEED={seed}"))
}
