//! Runs of the scheduler against an API that fails, lags and forgets, each replayable from its seed:
//! `MUSTER_SEED=17 cargo test -p muster-placement --test seeded`.
//!
//! Clocks jump too. What must hold at every step: no pod is bound twice, no device is given twice, whole or in parts. And in the end,
//! when everything has been heard and nothing fails any more: no gang is half-bound, pods that share a device were told the one that
//! is held for them, and none is held for nobody.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "seeded/shared.rs"]
mod shared;
#[path = "seeded/world.rs"]
mod world;

use world::World;

/// Seeds that are tried.
const SEEDS: u64 = 40;
/// Steps of one run.
const STEPS: usize = 250;

#[test]
fn whatever_fails_no_device_is_given_twice_and_no_gang_stays_half_bound() {
    let seeds = match std::env::var("MUSTER_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..SEEDS,
    };
    let (mut bound, mut evicted, mut killed, mut failed, mut reservations) = (0, 0, 0, 0, 0);
    for seed in seeds {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            world.step();
            world.check(&format!("seed {seed}, step {step}"));
        }
        world.calm();
        world.check(&format!("seed {seed}, at the end"));
        world.check_gangs(&format!("seed {seed}, at the end"));
        world.check_reservations(&format!("seed {seed}, at the end"));
        reservations += world.reservations;
        bound += world.bound;
        evicted += world.evicted;
        killed += world.killed;
        failed += world.failed;
    }
    println!(
        "{bound} bindings, {reservations} reservations, {evicted} evictions, {killed} coordinators killed, {failed} answers that \
         failed"
    );
    // A run in which nothing happens shows nothing.
    assert!(bound > 0 && killed > 0 && failed > 0 && reservations > 0);
}
