//! Runs of the scheduler against an API that fails, lags and forgets, each replayable from its seed:
//! `MUSTER_SEED=17 cargo test -p muster-scheduler-state --test seeded`. `MUSTER_SEEDS=2000` tries that many instead of a few.
//!
//! Clocks jump too. What must hold at every step: no pod is bound twice, no device is given twice, whole or in parts, and no
//! queue has more than its limit, nor has a queue above it. And in the end, when everything has been heard and nothing fails any
//! more: no gang is half-bound, pods that share a device were told the one that is held for them, and none is held for nobody.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads its seeds from its environment"
)]

#[path = "seeded/queues.rs"]
mod queues;
#[path = "seeded/shared.rs"]
mod shared;
#[path = "seeded/world.rs"]
mod world;

use std::panic::{RefUnwindSafe, catch_unwind};

use queues::{FREE, Rule, limited};
use world::World;

/// Seeds that are tried.
const SEEDS: u64 = 40;
/// Seeds that are tried with queues that have limits.
const LIMITED_SEEDS: u64 = 40;
/// Steps of one run.
const STEPS: usize = 250;

/// How much happened.
#[derive(Debug, Default)]
struct Sum {
    bound: usize,
    evicted: usize,
    killed: usize,
    failed: usize,
    reservations: usize,
}

fn run(seeds: u64, rules: impl Fn(u64) -> &'static [Rule] + RefUnwindSafe) -> Sum {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("MUSTER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MUSTER_SEEDS").unwrap_or(seeds),
    };
    let (mut sum, mut broken) = (Sum::default(), Vec::new());
    for seed in seeds {
        // One that breaks a law has said so; the others are tried all the same.
        match catch_unwind(|| run_one(seed, rules(seed))) {
            Ok(world) => {
                sum.reservations += world.reservations;
                sum.bound += world.bound;
                sum.evicted += world.evicted;
                sum.killed += world.killed;
                sum.failed += world.failed;
            }
            Err(_) => broken.push(seed),
        }
    }
    println!("{sum:?}");
    assert!(broken.is_empty(), "seeds that break a law: {broken:?}");
    sum
}

fn run_one(seed: u64, rules: &'static [Rule]) -> World {
    let mut world = World::new(seed, rules);
    for step in 0..STEPS {
        world.step();
        world.check(&format!("seed {seed}, step {step}"));
    }
    world.calm(&format!("seed {seed}, while it calms down"));
    let end = format!("seed {seed}, at the end");
    world.check(&end);
    world.check_gangs(&end);
    world.check_reservations(&end);
    world
}

#[test]
fn whatever_fails_no_device_is_given_twice_and_no_gang_stays_half_bound() {
    let sum = run(SEEDS, |_| FREE);
    // A run in which nothing happens shows nothing.
    assert!(sum.bound > 0 && sum.killed > 0 && sum.failed > 0 && sum.reservations > 0);
}

#[test]
fn whatever_fails_no_queue_and_no_queue_above_it_ever_has_more_than_its_limit() {
    let sum = run(LIMITED_SEEDS, limited);
    assert!(sum.bound > 0 && sum.evicted > 0 && sum.killed > 0 && sum.failed > 0);
}
