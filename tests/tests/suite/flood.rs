//! Callers who shout at every listener of a coordinator, from one address and from many, while others want something: probes, the
//! API server, agents. `MUSTER_FLOOD` says how many connections shout, 1,000 by default, and a tenth of that with TLS.

mod attack;
mod probe;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use muster_agent::link::{LinkState, LinkStatus};
use muster_agent::names;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::coordinators::Running;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use attack::{Attack, Crowd, Shout, Target};
use probe::{Probe, Probes};

/// How long each attack lasts.
const LASTS: Duration = Duration::from_millis(1500);

/// When it is over, everything is served again within this time, where nothing else keeps the machine busy: where `MUSTER_FLOOD` is set.
const RECOVERS: Duration = Duration::from_secs(1);

/// What the chart lets a probe wait, and the webhook configurations the API server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How many connections shout: no more than this process may have, each with both its ends.
fn connections() -> Result<usize> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let wanted = match std::env::var("MUSTER_FLOOD") {
        Ok(text) => text.parse().context("MUSTER_FLOOD is a count of connections")?,
        Err(_) => 1000,
    };
    let room = usize::try_from(most.saturating_sub(1000) / 2)?;
    ensure!(room >= 100, "this process may open {most} files: raise the limit (ulimit -n)");
    Ok(wanted.min(room))
}

/// Shouts in each of these ways, from one address and from many, while somebody else asks.
async fn flood(target: &Target, probe: &Probe, ways: &[Shout]) -> Result<()> {
    let connections = connections()?;
    let recovers = if std::env::var_os("MUSTER_FLOOD").is_some() { RECOVERS } else { TIMEOUT };
    for &way in ways {
        for crowd in [Crowd::OneAddress, Crowd::ManyAddresses] {
            // A handshake costs this process both its sides.
            let callers = if target.has_tls() { connections / 10 } else { connections };
            let attack = Attack::begin(target, way, crowd, callers)?;
            let probes = Probes::begin(probe, TIMEOUT)?;
            tokio::time::sleep(LASTS).await;
            let asked = probes.end().await?;
            let opened = attack.end();
            let name = format!("{probe}, {way:?} from {crowd:?}");
            println!("{name}: {opened} connections of strangers; {asked}");
            ensure!(opened > 0, "{name}: nobody came");
            ensure!(asked.refused.is_empty(), "{name}: {:?}", asked.refused);
            ensure!(asked.answered() > 0, "{name}: nobody was answered");
            let began = Instant::now();
            probe.ask(recovers).await.with_context(|| format!("{name}: not even after it"))?;
            println!("{name}: served again after {:?}", began.elapsed());
        }
    }
    Ok(())
}

fn leader(world: &World) -> Result<&Running> {
    world.coordinators()?.leader().context("nobody leads")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_pass_while_the_status_port_is_flooded() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let address = leader(world)?.coordinator().addresses().status;
            let target = Target::plain(address);
            let ways = [Shout::Nothing, Shout::SlowHead, Shout::SlowBody, Shout::Once];
            flood(&target, &Probe::Status(target.clone()), &ways).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admission_answers_while_the_webhooks_are_flooded() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let coordinator = leader(world)?.coordinator();
            let target = Target::tls(coordinator.addresses().webhooks, coordinator, b"http/1.1")?;
            let bare = Target::plain(target.address);
            let probe = Probe::Admission(target.clone());
            flood(&bare, &probe, &[Shout::Nothing]).await?;
            let ways = [Shout::Nothing, Shout::SlowHead, Shout::SlowBody, Shout::HugeBody];
            flood(&target, &probe, &ways).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_are_heard_while_the_hub_is_flooded() -> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            let node = world.agents()?.iter().next().context("no agent")?.0.clone();
            let mut tokens = Vec::new();
            for _ in 0..8 {
                // Each is new to the hub, and has to be reviewed.
                tokens.push(world.agent_token(&node, Some(names::AUDIENCE)).await?);
            }
            let coordinator = leader(world)?.coordinator();
            let target = Target::tls(coordinator.addresses().hub, coordinator, b"h2")?;
            let bare = Target::plain(target.address);
            let status = || -> Result<LinkStatus> {
                let link = world.agent(&node)?.status().link.clone();
                Ok(link.context("the agent has no link")?.borrow().clone())
            };
            let before = world
                .until("the agent's stream", async || {
                    let status = status()?;
                    Ok(match status.state {
                        LinkState::Up => Seen::Yes(status),
                        other => Seen::NotYet(format!("{other:?}")),
                    })
                })
                .await?;
            let probe = Probe::stream(target.clone(), tokens);
            flood(&bare, &probe, &[Shout::Nothing]).await?;
            flood(&target, &probe, &[Shout::HugeFrame, Shout::InventedToken]).await?;
            let after = status()?;
            ensure!(after.connects == before.connects, "{before:?} {after:?}");
            Ok(())
        })
        .await
}
