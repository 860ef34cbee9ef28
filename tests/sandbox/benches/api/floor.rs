//! What no API server can do without, as the measure for ours.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::load::WRITERS;
use crate::pods::{self, PODS};

/// A map of objects, behind a lock: the least that a store can be.
#[derive(Default)]
pub struct Floor(Arc<Mutex<BTreeMap<String, (Value, Bytes)>>>);

// === impl Floor ===

impl Floor {
    /// Parses the pod, serialises it once and puts both into the map; by as many tasks as there are writers.
    pub async fn run(&self, pod: &Bytes, writes: u64) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for number in 0..WRITERS {
            let share =
                writes / WRITERS as u64 + u64::from((number as u64) < writes % WRITERS as u64);
            let (map, pod) = (self.0.clone(), pod.clone());
            tasks.spawn(async move {
                for turn in 0..share as usize {
                    let name = pods::name_of((turn * WRITERS + number) % PODS);
                    write(&map, name, &pod)?;
                    tokio::task::yield_now().await;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(begin.elapsed())
    }
}

fn write(
    map: &Mutex<BTreeMap<String, (Value, Bytes)>>,
    name: String,
    body: &[u8],
) -> anyhow::Result<()> {
    let pod: Value = serde_json::from_slice(body)?;
    let bytes = Bytes::from(serde_json::to_vec(&pod)?);
    let mut map = map.lock().map_err(|_| anyhow::anyhow!("a writer failed"))?;
    let before = map.insert(name, (pod, bytes));
    drop(map);
    drop(before);
    Ok(())
}
