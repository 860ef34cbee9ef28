//! Coordinators die at every pod that a request makes: what is left of a learner goes, and what is whole is listed.

use anyhow::{Context, Result, bail, ensure};
use muster_tests::World;
use muster_tests::world::dijob::{Caller, selector};
use muster_tests::world::jobset::phase;
use muster_tests::world::{Guillotine, PATIENCE, Seen, Side};
use serde_json::json;

use super::{aggregators, running};

/// Replaces whoever falls.
async fn bury(world: &mut World, guillotine: &std::sync::Arc<Guillotine>) -> Result<()> {
    let fallen = tokio::time::timeout(PATIENCE, guillotine.falls()).await;
    world.kill_for_good(fallen.context("nobody has died")?).await?;
    let own = guillotine.clone();
    world.add_coordinator_with(move |client| own.client(client).1).await?;
    Ok(())
}

/// What a job has when nothing happens any more: collectors, aggregators, DDP learners; or what is missing.
async fn settled(world: &World, job: &str) -> Result<Seen<(usize, usize, usize)>> {
    let pods = world.pods(&selector(job)).await?;
    let of = |role: &str| {
        let role = role.to_owned();
        let is = move |pod: &&k8s_openapi::api::core::v1::Pod| {
            pod.metadata.labels.as_ref().and_then(|all| all.get("replica-type")) == Some(&role)
        };
        pods.iter().filter(is).count()
    };
    let counts = (of("collector"), of("aggregator"), of("ddp-learner"));
    // Each aggregator has its two pods, or is not there.
    let whole = counts.2 == 2 * counts.1 && of("coordinator") == 1;
    let all = pods.iter().all(|pod| phase(pod) == "Running");
    let services = super::services(world, job).await?;
    Ok(match whole && all && services == super::names(&pods) {
        true => Seen::Yes(counts),
        false => Seen::NotYet(format!("{counts:?}, services {services:?}")),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_dies_while_it_makes_replicas_leaves_nothing_half_made() -> Result<()> {
    World::new()
        .nodes_of(muster_sandbox::hardware::Profile::NvidiaH1008, 2)
        .coordinators(1)
        .run(async |world| {
            aggregators(world).await?;
            let guillotine = Guillotine::of_pods(world.namespace());
            world.coordinators_mut()?.end(0).await?;
            // Numbers of coordinators and of clients are the same from here on.
            let (number, _) = guillotine.client(world.client());
            assert_eq!(number, 0);
            let own = guillotine.clone();
            world.add_coordinator_with(move |client| own.client(client).1).await?;
            let space = world.namespace().to_owned();
            let mut kills = 0;
            // A collector, an aggregator and two DDP learners.
            let last = if World::is_real() { 1 } else { 4 };
            let walk: Vec<_> =
                (1..=last).flat_map(|at| [(at, Side::Before), (at, Side::After)]).collect();
            let wanted = walk.len();
            for (at, side) in walk {
                let job =
                    format!("cut-{at}-{}", if side == Side::Before { "before" } else { "after" });
                running(world, &job, "All").await?;
                world.until("its own service", async || settled(world, &job).await).await?;
                guillotine.arm(Some((at, side)));
                let (space, coordinator) = (space.clone(), format!("{job}-coordinator"));
                let (address, token) = (world.coordinators()?.di_server(), world.di_token().await?);
                let asking = tokio::spawn(async move {
                    let mut caller = Caller::new(address).await?.with_token(&token);
                    let wanted = json!({"replicas": 1, "gpus": 16});
                    caller.create(&space, &coordinator, &json!({"replicas": 1}), &wanted).await
                });
                bury(world, &guillotine).await.with_context(|| format!("at pod {at}"))?;
                kills += 1;
                // Whoever asked hears that the connection is gone, and asks again as DI-engine does; or was answered
                // before.
                let said = asking.await.context("the caller")?;
                guillotine.arm(None);
                let counts = world.until(&job, async || settled(world, &job).await).await?;
                let mut caller = world.di_caller().await?;
                let coordinator = format!("{job}-coordinator");
                // The one that runs now may still read what there is.
                let listed = world
                    .until("an answer", async || {
                        let (status, listed) =
                            caller.query(world.namespace(), &coordinator).await?;
                        ensure!(status == 200 || status == 503, "{status} {listed}");
                        let filled = status == 200;
                        Ok(if filled {
                            Seen::Yes(listed)
                        } else {
                            Seen::NotYet(listed.to_string())
                        })
                    })
                    .await?;
                let length = |key: &str| listed["data"][key].as_array().map_or(0, Vec::len);
                assert_eq!((length("collectors"), length("learners")), (counts.0, counts.1));
                match &said {
                    // It may still have said that it ends.
                    Err(_) | Ok((503, _)) => {}
                    Ok((200, _)) => {
                        assert_eq!((counts.0, counts.1), (1, 1), "what was answered is there");
                    }
                    Ok((status, said)) => bail!("{status}: {said}"),
                }
                println!("{side:?} pod {at}: {} collectors, {} learners", counts.0, counts.1);
                world.dijobs().delete(&job, &kube::api::DeleteParams::background()).await?;
                world
                    .until("its end", async || {
                        let left = world.pods(&selector(&job)).await?.len();
                        Ok(if left == 0 {
                            Seen::Yes(())
                        } else {
                            Seen::NotYet(format!("{left} pods"))
                        })
                    })
                    .await?;
            }
            assert_eq!(kills, wanted);
            Ok(())
        })
        .await
}
