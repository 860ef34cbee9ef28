//! When each step of a table's way was seen: by watches, by asking the hub, by looking at the files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, WatchEvent, WatchParams};

use super::story::node_of;
use super::table::table;
use crate::World;
use crate::world::table_file;

/// How often hub and files are looked at.
const LOOK: Duration = Duration::from_millis(1);

/// Says which pods share a table.
const RANK_GROUP: &str = "muster.dev/rank-group";

/// The steps, in the order in which they happen.
pub(super) const STEPS: [&str; 5] = [
    "pod created",
    "its devices known to the coordinator",
    "table recorded, in the ConfigMap",
    "file in the pod's volume",
    "main container started",
];

/// When the steps of one pod were seen, after the start.
#[derive(Debug)]
pub(super) struct Lap {
    pub pod: Pod,
    pub times: [Option<Duration>; STEPS.len()],
}

/// Looks until every pod has taken every step.
pub(super) struct Stopwatch<'a> {
    world: &'a World,
    groups: &'a [&'a str],
    file: &'a str,
    laps: Vec<Lap>,
}

// === impl Stopwatch ===

impl<'a> Stopwatch<'a> {
    pub fn new(world: &'a World, groups: &'a [&'a str], file: &'a str) -> Self {
        Self { world, groups, file, laps: Vec::new() }
    }

    /// Starts what `submit` submits, and looks until `count` pods of the groups have taken all steps.
    pub async fn run(
        mut self,
        count: usize,
        limit: Duration,
        submit: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Vec<Lap>> {
        let marked = format!("{RANK_GROUP} in ({})", self.groups.join(","));
        let params = WatchParams::default().labels(&marked);
        let (pods, records): (Api<Pod>, Api<ConfigMap>) = (self.world.api(), self.world.api());
        let mut pods = pods.watch(&params, "0").await?.boxed();
        let mut records = records.watch(&params, "0").await?.boxed();
        let hub = self.world.hub()?;
        let start = Instant::now();
        submit.await?;
        let mut looks = tokio::time::interval(LOOK);
        let mut recorded: BTreeMap<String, Duration> = BTreeMap::new();
        while self.laps.len() < count || self.laps.iter().any(|lap| lap.missing().is_some()) {
            if start.elapsed() > limit {
                bail!("{}", self.stuck(count, limit));
            }
            tokio::select! {
                biased;
                event = pods.next() => {
                    let event = event.context("the watch of pods ended")??;
                    if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event {
                        self.pod(pod, start.elapsed());
                    }
                }
                event = records.next() => {
                    let event = event.context("the watch of records ended")??;
                    if let WatchEvent::Added(map) | WatchEvent::Modified(map) = event
                        && map.data.iter().flatten().any(|(_, text)| !text.is_empty())
                    {
                        let group = map.labels().get(RANK_GROUP).cloned().unwrap_or_default();
                        recorded.entry(group).or_insert_with(|| start.elapsed());
                    }
                }
                _ = looks.tick() => {}
            }
            for lap in &mut self.laps {
                let (node, uid) = (node_of(&lap.pod), lap.pod.uid().unwrap_or_default());
                let file = place(self.world, &lap.pod, self.file);
                let group = lap.group().to_owned();
                let [_, devices, record, written, _] = &mut lap.times;
                if devices.is_none() && hub.agent_report(node, &uid).is_some() {
                    *devices = Some(start.elapsed());
                }
                *record = recorded.get(&group).copied();
                if written.is_none() && file.is_some_and(|file| file.exists()) {
                    *written = Some(start.elapsed());
                }
            }
        }
        self.laps.sort_by_key(|lap| lap.pod.name_any());
        Ok(self.laps)
    }

    fn pod(&mut self, pod: Pod, now: Duration) {
        let known = self.laps.iter().position(|lap| lap.pod.uid() == pod.uid());
        let at = known.unwrap_or_else(|| {
            self.laps.push(Lap { pod: pod.clone(), times: [None; STEPS.len()] });
            self.laps.len() - 1
        });
        let Some(lap) = self.laps.get_mut(at) else { return };
        let [created, .., started] = &mut lap.times;
        created.get_or_insert(now);
        let containers =
            pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        if containers.filter_map(|one| one.state.as_ref()).any(|state| state.running.is_some()) {
            started.get_or_insert(now);
        }
        lap.pod = pod;
    }

    fn stuck(&self, count: usize, limit: Duration) -> String {
        let waits: Vec<String> = self
            .laps
            .iter()
            .filter_map(|lap| Some(format!("{}: no {:?}", lap.pod.name_any(), lap.missing()?)))
            .collect();
        format!(
            "rank group {} has not got its table within {} s; {} of {count} pods were seen; {}",
            self.groups.join(", "),
            limit.as_secs(),
            self.laps.len(),
            waits.join("; ")
        )
    }
}

// === impl Lap ===

impl Lap {
    /// The pods with which it shares a table.
    pub fn group(&self) -> &str {
        self.pod.labels().get(RANK_GROUP).map_or("", String::as_str)
    }

    /// The first step that was not seen.
    fn missing(&self) -> Option<&'static str> {
        let mut steps = STEPS.iter().zip(&self.times);
        steps.find(|(_, time)| time.is_none()).map(|(step, _)| *step)
    }
}

/// Where a pod's table is on its simulated node.
pub(super) fn place(world: &World, pod: &Pod, file: &str) -> Option<PathBuf> {
    let node = world.kubelets()?.node(node_of(pod))?;
    Some(table_file(&node.spec().root, &pod.uid()?, file))
}

/// A row per step, a column per pod, in milliseconds.
pub(super) fn show(laps: &[Lap], width: usize) -> Vec<String> {
    let names: Vec<String> = laps.iter().map(|lap| short(&lap.pod.name_any())).collect();
    let mut header = vec!["MILLISECONDS AFTER THE SUBMIT"];
    header.extend(names.iter().map(String::as_str));
    let rows = STEPS.iter().enumerate().map(|(at, step)| {
        let times = laps.iter().zip(&names).map(|(lap, name)| {
            let time = lap.times.get(at).copied().flatten();
            format!("{:>width$}", milliseconds(time), width = name.len())
        });
        std::iter::once((*step).to_owned()).chain(times).collect()
    });
    table(&header, &rows.collect::<Vec<Vec<String>>>(), width)
}

/// A time, as tables show it.
pub(super) fn milliseconds(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e3))
}

/// Without the letters that the Job controller has added.
fn short(pod: &str) -> String {
    pod.rsplit_once('-').map_or(pod, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lap(name: &str, times: [u64; STEPS.len()]) -> Lap {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        Lap { pod, times: times.map(|time| Some(Duration::from_millis(time))) }
    }

    #[test]
    fn the_times_fit_a_terminal_with_a_column_per_pod() {
        let laps = [lap("train-worker-0-0-abcde", [1, 20, 30, 31, 1234]), {
            let mut lap = lap("train-worker-0-1-fghij", [2, 21, 30, 32, 50]);
            lap.times[4] = None;
            lap
        }];
        let lines = show(&laps, 80);
        assert_eq!(lines.len(), STEPS.len() + 1);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[0].ends_with("train-worker-0-0  train-worker-0-1"), "{}", lines[0]);
        assert!(lines[5].ends_with("1234.0                 -"), "{}", lines[5]);
        assert_eq!(laps[1].missing(), Some("main container started"));
    }
}
