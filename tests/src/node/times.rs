//! How long a new table takes until containers that run can read it: written by the agent, and through a ConfigMap volume.
//!
//! A group has readers that stay and one pod that is replaced. Each replacement has another number of devices, so each table
//! differs from the last. Time begins when a watch shows the new pod's annotation, the last that the table needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::TryStreamExt;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::Mutex;

use super::Stage;
use super::checks::Checks;
use super::pods::{Member, TABLE, device_ids, root_of};
use crate::delivery::report::at;
use crate::world::Seen;

/// Pods that stay.
const READERS: usize = 2;
/// How often the files are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// A kubelet looks at a pod's ConfigMaps once in 60 to 90 s.
const SYNC: Duration = Duration::from_secs(200);
/// What the agent's way may take.
const LIMIT: Duration = Duration::from_secs(1);

/// When each pod's annotation was first seen.
#[derive(Clone, Default)]
struct Annotations(Arc<Mutex<BTreeMap<String, Instant>>>);

// === impl Stage ===

impl Stage<'_> {
    /// Measures and prints.
    pub async fn measure(&self, checks: &mut Checks) {
        let name = "p99 of tables by the agent is within 1 s of the last annotation";
        let (readers, last) = match self.rounds("agent").await {
            Ok((readers, times, last)) => {
                let met = print_times("into an emptyDir, by the agent", times) <= LIMIT;
                checks.add(name, if met { Ok(()) } else { Err(anyhow::anyhow!("it is not")) });
                (readers, last)
            }
            Err(error) => return checks.add(name, Err(error)),
        };
        // The same table, through a volume that nobody has touched: it takes so long that others are measured meanwhile. An
        // older table may have as many devices, so it has to be this one to the letter.
        let slow = async {
            let root = readers.first().context("no reader")?;
            let table = std::fs::read_to_string(below(root, TABLE))?;
            let file = "/record/ranktable.json";
            let all = readers.iter().map(|root| arrival(root, file, last, |text| text == table));
            try_join_all(all).await
        };
        let (slow, touched) = tokio::join!(slow, self.rounds("configmap"));
        let name = "delivery configmap: each table comes through a ConfigMap volume, its pod being touched";
        checks.add(
            name,
            touched.map(|(_, times, _)| {
                print_times(
                    "through a ConfigMap volume, the pod's annotations being touched",
                    times,
                );
            }),
        );
        let name = "the last table is also in a ConfigMap volume that is not touched";
        checks.add(
            name,
            slow.map(|times| {
                print_times("through a ConfigMap volume, not touched", times);
            }),
        );
    }

    /// So many tables, one after the other: the readers' file systems, all times, and since when the last one was on its way.
    async fn rounds(
        &self,
        delivery: &str,
    ) -> anyhow::Result<(Vec<PathBuf>, Vec<Duration>, Instant)> {
        let seen = Annotations::default();
        let watch = tokio::spawn(seen.clone().watch(self.pods()));
        let outcome = self.rounds_with(delivery, &seen).await;
        watch.abort();
        outcome
    }

    async fn rounds_with(
        &self,
        delivery: &str,
        seen: &Annotations,
    ) -> anyhow::Result<(Vec<PathBuf>, Vec<Duration>, Instant)> {
        let group = format!("times-{delivery}");
        let name = |number: usize| format!("{group}-{number}");
        let record = delivery == "agent";
        let join = async |number: usize, devices: usize| {
            let (name, size) = (name(number), READERS + 1);
            self.join(Member { name: &name, group: &group, size, devices, delivery, record }).await
        };
        for number in 0..=READERS {
            join(number, 1).await?;
        }
        let mut roots = Vec::new();
        for number in 0..READERS {
            roots.push(root_of(&self.running(&name(number)).await?)?);
        }
        self.running(&name(READERS)).await?;
        let mut times = Vec::new();
        let mut last = Instant::now();
        for round in 1..=self.args.rounds as usize {
            self.end(&name(READERS + round - 1)).await?;
            let devices = 1 + round % 2;
            join(READERS + round, devices).await?;
            let since = seen.of(self, &name(READERS + round)).await?;
            last = since;
            let all = roots.iter().map(|root| {
                arrival(root, TABLE, since, |text| {
                    device_ids(text).is_ok_and(|ids| ids.len() == READERS + devices)
                })
            });
            times.extend(try_join_all(all).await?);
        }
        if delivery != "agent" {
            for number in (0..READERS).chain([READERS + self.args.rounds as usize]) {
                self.end(&name(number)).await?;
            }
        }
        Ok((roots, times, last))
    }
}

/// A file of a container, seen from outside.
fn below(root: &Path, file: &str) -> PathBuf {
    root.join(file.trim_start_matches('/'))
}

/// Waits until a container reads the table that is meant; how long it took.
async fn arrival(
    root: &Path,
    file: &str,
    since: Instant,
    is_meant: impl Fn(&str) -> bool,
) -> anyhow::Result<Duration> {
    let path = below(root, file);
    loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if is_meant(&text) {
            // The agent's own stream may be ahead of the annotation.
            return Ok(Instant::now().saturating_duration_since(since));
        }
        anyhow::ensure!(
            since.elapsed() < SYNC,
            "waited {SYNC:?} for the new table in {file}; it holds {text:?}"
        );
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Prints the spread; what 99 of 100 are within.
fn print_times(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| at(&times, share));
    println!(
        "time  {what}: {} tables, p50 {:.3} s, p99 {:.3} s, max {:.3} s",
        times.len(),
        p50.as_secs_f64(),
        p99.as_secs_f64(),
        max.as_secs_f64()
    );
    p99
}

// === impl Annotations ===

impl Annotations {
    async fn watch(self, pods: Api<Pod>) {
        let events = watcher(pods, watcher::Config::default()).default_backoff().applied_objects();
        let followed = events.try_for_each(|pod| {
            if pod.annotations().contains_key("ascend.com/ranktable") {
                self.0.lock().entry(pod.name_any()).or_insert_with(Instant::now);
            }
            futures::future::ready(Ok(()))
        });
        if let Err(error) = followed.await {
            tracing::warn!("pods are not watched any more: {error}");
        }
    }

    /// Waits for the annotation of a pod; when it was seen.
    async fn of(&self, stage: &Stage<'_>, pod: &str) -> anyhow::Result<Instant> {
        let what = format!("the annotation of {pod}");
        let found = stage.world.until(&what, async || {
            let since = self.0.lock().get(pod).copied();
            Ok(since.map_or(Seen::NotYet("none".to_owned()), Seen::Yes))
        });
        found.await.context("no annotation")
    }
}
