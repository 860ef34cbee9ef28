//! What the world gives a controller: time, randomness, tasks. A program passes the system's, a simulator its own.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;
use muster_program::heartbeat::Heartbeats;
use rand::RngCore as _;
use tokio::time::Instant;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// A moment to measure from.
    fn now(&self) -> Instant;

    /// The time of day, for what is written into objects.
    fn timestamp(&self) -> jiff::Timestamp;

    /// Returns when that moment has come.
    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()>;
}

/// Gives random bytes.
pub trait Randomness: Send + Sync {
    /// Fills the bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// A number from 0 up to, and without, 1.
    fn fraction(&self) -> f64 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Runs tasks.
pub trait Spawn: Send + Sync {
    /// Runs a task beside its caller.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// Clock, randomness, tasks and heartbeats. Copies share them.
#[derive(Clone)]
pub struct Environment {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives random bytes.
    pub randomness: Arc<dyn Randomness>,
    /// Runs tasks.
    pub tasks: Arc<dyn Spawn>,
    /// Knows whether loops are alive.
    pub heartbeats: Heartbeats,
}

/// Tokio's time and tasks, and the thread's generator of random numbers. A test pauses this clock with
/// `tokio::time::pause`.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

// === impl Environment ===

impl Environment {
    /// That of a program whose loops nobody asks whether they are alive.
    pub fn system() -> Self {
        Self::of(Heartbeats::default())
    }

    /// That of a program.
    pub fn of(heartbeats: Heartbeats) -> Self {
        Self {
            clock: Arc::new(System),
            randomness: Arc::new(System),
            tasks: Arc::new(System),
            heartbeats,
        }
    }
}

impl Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

// === impl System ===

impl Clock for System {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn timestamp(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(moment))
    }
}

impl Randomness for System {
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

impl Spawn for System {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}
