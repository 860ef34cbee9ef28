//! Coordinators die at every step, agents come and go: no torn, mixed or older table is ever readable, none is lost.

mod faults;
mod partition;
mod placement;
mod play;
mod record;
mod serving;
mod trainjob;
mod witness;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use muster_tests::World;
use muster_tests::world::{PATIENCE, Seen, Side};

use play::{Home, Stage};

use super::ranktable::generation;

/// How long a look at the acks pauses.
const SOON: std::time::Duration = std::time::Duration::from_millis(1);

/// The writes at which somebody dies: each one. On a real cluster, where a life takes seconds, two of them.
fn chosen(most: usize) -> Vec<usize> {
    match World::is_real() {
        true => vec![1, most.div_ceil(2)],
        false => (1..=most).collect(),
    }
}

/// A group gets its table, a pod is replaced, it gets the next. How many writes that took.
async fn life(stage: &mut Stage, group: &str, homes: [Home; 2]) -> Result<Vec<String>> {
    let mut play = stage.play(group).await?;
    play.pod("a", homes[0], 0).await?;
    play.pod("b", homes[1], 1).await?;
    let first = play.delivered(1).await?;
    play.delete("b").await?;
    play.pod("c", homes[1], 1).await?;
    let second = play.delivered(generation(&first) + 1).await?;
    ensure!(generation(&second) > generation(&first));
    let writes = play.stage.guillotine.writes();
    let tables = play.end().await?;
    ensure!(tables >= 1, "nobody has read any table");
    Ok(writes)
}

/// Kills at every write of that life, on both sides of it.
async fn walk(homes: [Home; 2], kind: &str) -> Result<()> {
    let begun = Instant::now();
    Stage::run(async |stage| {
        stage.guillotine.arm(None);
        let writes = life(stage, &format!("{kind}-dry"), homes).await.context("without a kill")?;
        let most = writes.len();
        ensure!(most >= 4, "few writes: {writes:?}");
        println!("{kind}: {most} writes: {writes:#?}");
        let mut points = 0;
        let chosen = chosen(most);
        for at in chosen.iter().copied() {
            for side in [Side::Before, Side::After] {
                let (before, since) = (stage.kills, Instant::now());
                stage.guillotine.arm(Some((at, side)));
                let group = format!("{kind}-{at}-{}", if side == Side::Before { "b" } else { "a" });
                let lived = life(stage, &group, homes).await;
                let writes = stage.guillotine.writes();
                let write = writes.get(at - 1).cloned();
                lived.with_context(|| {
                    format!("killed {side:?} write {at}: {write:?} of {writes:#?}")
                })?;
                points += stage.kills - before;
                println!("{kind} {at} {side:?} {write:?}: {:.2?}", since.elapsed());
            }
        }
        println!("{kind}: {points} kills at {most} writes, {:.1?}", begun.elapsed());
        ensure!(points >= chosen.len(), "only {points} kills");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_for_tables_that_agents_deliver_nothing_is_torn_or_lost() -> Result<()>
{
    walk([Home::Agent, Home::Agent], "agent").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_for_tables_in_volumes_nothing_is_torn_or_lost() -> Result<()> {
    walk([Home::Volume, Home::Agent], "mixed").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_tables_are_on_their_way_and_agents_come_and_go_nothing_is_torn_or_lost()
-> Result<()> {
    Stage::run(async |stage| {
        let agents = if World::is_real() { vec![Some(1)] } else { vec![None, Some(0), Some(1)] };
        for acks in 0..=2 {
            for restarted in agents.iter().copied() {
                let group =
                    format!("way-{acks}-{}", restarted.map_or("n".to_owned(), |n| n.to_string()));
                let under_way = on_the_way(stage, &group, acks, restarted).await;
                under_way.with_context(|| format!("{acks} acks, agent {restarted:?} restarted"))?;
            }
        }
        println!("{} kills", stage.kills);
        Ok(())
    })
    .await
}

/// Kills the leader when it has heard of so many acks of the first table, and of the second; an agent goes meanwhile.
async fn on_the_way(
    stage: &mut Stage,
    group: &str,
    acks: usize,
    restarted: Option<usize>,
) -> Result<()> {
    let mut play = stage.play(group).await?;
    play.pod("a", Home::Agent, 0).await?;
    play.pod("b", Home::Agent, 1).await?;
    let mut least = 1;
    for round in 0..2 {
        if round == 1 {
            play.delete("b").await?;
            play.pod("c", Home::Agent, 1).await?;
        }
        let name = format!("{group}-ranktable");
        play.stage
            .until("a table on its way", async |world| {
                let map = super::ranktable::records(world).get(&name).await?;
                let there = generation(&map) >= least && !super::ranktable::table(&map).is_empty();
                Ok(if there { Seen::Yes(()) } else { Seen::NotYet("none".to_owned()) })
            })
            .await?;
        let end = Instant::now() + PATIENCE;
        while play.acks(least) < acks {
            ensure!(Instant::now() < end, "{} acks", play.acks(least));
            tokio::time::sleep(SOON).await;
        }
        let leader = play.stage.leader().await?;
        play.stage.kill(leader).await?;
        if let Some(node) = restarted {
            let node = play.stage.nodes[node].clone();
            play.stage.world.restart_agent(&node).await?;
        }
        least = generation(&play.delivered(least).await?) + 1;
    }
    play.end().await?;
    Ok(())
}
