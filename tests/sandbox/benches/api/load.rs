//! Writers and watchers, and the proof that no event was lost between them.
//!
//! Of ten writes seven are status patches (merge-patch), one is an update (PUT of the whole pod), one a
//! create and one the delete of what was created: the number of pods stays the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use muster_sandbox::Sandbox;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::door::{Door, Way};
use crate::pods::{self, NAMESPACE, NODES, PODS};

/// Writers at the same time.
pub const WRITERS: usize = 8;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
/// Replaced by the number of the turn in the body of an update.
const MARK: &str = "TURN-OF-THE-UPDATE";
/// A watcher that is behind for so long has lost something.
const PATIENCE: Duration = Duration::from_secs(60);

/// What each node's watcher must see, and what it has seen.
#[derive(Default)]
pub struct Ledger {
    due: Vec<AtomicU64>,
    seen: Vec<AtomicU64>,
    total_seen: AtomicU64,
    target: AtomicU64,
    reached: Notify,
}

struct Writer {
    door: Door,
    number: usize,
    turn: u64,
    /// Bodies of updates, one per pod that this writer updates.
    updates: Vec<(usize, String)>,
    created: Option<(String, usize)>,
}

/// Writers, and perhaps watchers, of one sandbox.
pub struct Load {
    ledger: Arc<Ledger>,
    writers: Vec<Writer>,
    watchers: JoinSet<anyhow::Result<()>>,
    seed: u64,
}

// === impl Ledger ===

impl Ledger {
    fn new() -> Self {
        let zeros = || (0..NODES).map(|_| AtomicU64::new(0)).collect();
        let target = AtomicU64::new(u64::MAX);
        Self { due: zeros(), seen: zeros(), target, ..Self::default() }
    }

    fn queue_for(&self, node: usize) {
        self.due[node].fetch_add(1, Ordering::Relaxed);
    }

    fn see(&self, node: usize, events: u64) {
        self.seen[node].fetch_add(events, Ordering::AcqRel);
        let total = self.total_seen.fetch_add(events, Ordering::AcqRel) + events;
        if total >= self.target.load(Ordering::Acquire) {
            self.reached.notify_one();
        }
    }

    /// Waits until the watchers have seen as many events as there were writes, then compares node by node.
    async fn settle(&self) -> anyhow::Result<()> {
        let due: u64 = self.due.iter().map(|n| n.load(Ordering::Acquire)).sum();
        self.target.store(due, Ordering::Release);
        let all_seen = async {
            while self.total_seen.load(Ordering::Acquire) < due {
                self.reached.notified().await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, all_seen).await;
        self.target.store(u64::MAX, Ordering::Release);
        for (node, (due, seen)) in self.due.iter().zip(&self.seen).enumerate() {
            let (due, seen) = (due.load(Ordering::Acquire), seen.load(Ordering::Acquire));
            ensure!(due == seen, "node-{node}: {due} writes, but its watcher saw {seen} events");
        }
        in_time.context("the watchers did not catch up")
    }
}

// === impl Load ===

impl Load {
    /// Opens the doors. With watchers, one follows the pods of each node from now on.
    pub async fn start(
        sandbox: &Sandbox,
        way: Way,
        watched: bool,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let ledger = Arc::new(Ledger::new());
        let mut watchers = JoinSet::new();
        if watched {
            let revision = sandbox.api().store.revision();
            for node in 0..NODES {
                let mut door = Door::open(sandbox, way).await?;
                let path = format!(
                    "/api/v1/pods?watch=true&resourceVersion={revision}&fieldSelector=spec.nodeName%3Dnode-{node}"
                );
                let answer = door.send(Method::GET, &path, JSON, Bytes::new()).await?;
                ensure!(answer.status().is_success(), "{path}: {}", answer.status());
                watchers.spawn(follow(door, answer.into_body(), node, ledger.clone()));
            }
        }
        let mut writers = Vec::new();
        for number in 0..WRITERS {
            let door = Door::open(sandbox, way).await?;
            let mut writer =
                Writer { door, number, turn: seed, updates: Vec::new(), created: None };
            writer.prepare_updates().await?;
            writers.push(writer);
        }
        Ok(Self { ledger, writers, watchers, seed })
    }

    /// Does `writes` writes and, with watchers, waits until the last event has arrived.
    pub async fn run(&mut self, writes: u64) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for mut writer in self.writers.drain(..) {
            let at = writer.number as u64;
            let share = writes / WRITERS as u64 + u64::from(at < writes % WRITERS as u64);
            let (ledger, seed) = (self.ledger.clone(), self.seed);
            tasks.spawn(async move {
                for _ in 0..share {
                    writer.write(&ledger, seed).await?;
                }
                anyhow::Ok(writer)
            });
        }
        while let Some(writer) = tasks.join_next().await {
            self.writers.push(writer??);
        }
        if !self.watchers.is_empty() {
            self.ledger.settle().await?;
        }
        Ok(begin.elapsed())
    }

    /// How many events the watchers have seen.
    pub fn seen(&self) -> u64 {
        self.ledger.total_seen.load(Ordering::Acquire)
    }
}

// === impl Writer ===

impl Writer {
    async fn prepare_updates(&mut self) -> anyhow::Result<()> {
        for n in (self.number..PODS).step_by(PODS / 16 / WRITERS * WRITERS) {
            let path = pods::path_of(&pods::name_of(n));
            let answer = self.door.done(Method::GET, &path, JSON, Bytes::new()).await?;
            let mut pod: Value = serde_json::from_slice(&answer)?;
            pod["metadata"]["labels"]["muster.dev/turn"] = MARK.into();
            pod["metadata"]["resourceVersion"] = "".into();
            self.updates.push((n, pod.to_string()));
        }
        Ok(())
    }

    async fn write(&mut self, ledger: &Ledger, seed: u64) -> anyhow::Result<()> {
        self.turn += 1;
        let (turn, number) = (self.turn, self.number);
        match (turn % 10, self.created.take()) {
            (0, None) => {
                let name = format!("extra-{seed}-{number}-{turn}");
                let node = turn as usize / 10 % NODES;
                let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
                let body = pods::pod(&name, node).to_string();
                self.door.done(Method::POST, &path, JSON, body).await?;
                ledger.queue_for(node);
                self.created = Some((name, node));
            }
            (9, Some((name, node))) => {
                let path = format!("{}?gracePeriodSeconds=0", pods::path_of(&name));
                self.door.done(Method::DELETE, &path, JSON, Bytes::new()).await?;
                ledger.queue_for(node);
            }
            (5, created) => {
                self.created = created;
                let (n, body) = &self.updates[turn as usize / 10 % self.updates.len()];
                let body = body.replace(MARK, &turn.to_string());
                let path = pods::path_of(&pods::name_of(*n));
                self.door.done(Method::PUT, &path, JSON, body).await?;
                ledger.queue_for(pods::node_of(*n));
            }
            (_, created) => {
                self.created = created;
                // Far strides: neighbours in time are not neighbours in the store.
                let n = (turn as usize * 577 + number) % (PODS / WRITERS) * WRITERS + number;
                let path = format!("{}/status", pods::path_of(&pods::name_of(n)));
                self.door
                    .done(Method::PATCH, &path, MERGE, pods::status_patch(turn).to_string())
                    .await?;
                ledger.queue_for(pods::node_of(n));
            }
        }
        Ok(())
    }
}

/// Counts the events of one node until the watch ends.
async fn follow(
    door: Door,
    mut events: axum::body::Body,
    node: usize,
    ledger: Arc<Ledger>,
) -> anyhow::Result<()> {
    while let Some(frame) = events.frame().await {
        if let Ok(data) = frame.context("watching")?.into_data() {
            ledger.see(node, data.iter().filter(|byte| **byte == b'\n').count() as u64);
        }
    }
    drop(door);
    Ok(())
}
