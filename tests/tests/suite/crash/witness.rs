//! Sees everything that anybody could ever read: each file of a table, again and again, and each version of the record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{WatchEvent, WatchParams};
use muster_proto::delivery::{Digest, generation_file};
use muster_tests::World;
use muster_tests::world::{PATIENCE, Seen, until};

use crate::suite::ranktable::{generation, ranks, table};

/// Between two reads of a file. No more than two cores do all of this.
const PAUSE: Duration = Duration::from_micros(500);

/// What was in a file and beside it, the generation read first. Empty files count as absent.
type Read = (Option<u64>, Option<Digest>);

/// One version of a record: generation, digest, state, text.
#[derive(Clone, Debug)]
struct Version {
    resource_version: String,
    generation: u64,
    digest: String,
    state: String,
    text: String,
}

#[derive(Default)]
struct Log {
    files: BTreeMap<PathBuf, Vec<Read>>,
    texts: BTreeMap<Digest, String>,
    versions: Vec<Version>,
}

/// Sees what becomes of one group.
pub struct Witness {
    log: Arc<Mutex<Log>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    watch: tokio::task::JoinHandle<()>,
}

impl Witness {
    /// Watches the record of a group from its beginning.
    pub async fn new(world: &World, group: &str) -> Result<Self> {
        let log: Arc<Mutex<Log>> = Arc::default();
        let params = WatchParams::default().labels(&format!("muster.dev/rank-group={group}"));
        let mut seen = world.api::<ConfigMap>().watch(&params, "0").await?.boxed();
        let own = log.clone();
        let watch = tokio::spawn(async move {
            while let Some(event) = seen.next().await {
                if let Ok(WatchEvent::Added(map) | WatchEvent::Modified(map)) = event {
                    lock(&own).versions.push(Version::of(&map));
                }
            }
        });
        Ok(Self { log, stop: Arc::default(), threads: Vec::new(), watch })
    }

    /// Reads this file from now on, in a thread of its own.
    pub fn read(&mut self, file: PathBuf) {
        let (log, stop) = (self.log.clone(), self.stop.clone());
        self.threads.push(std::thread::spawn(move || {
            let mut last = None;
            while !stop.load(Ordering::Relaxed) {
                let (read, text) = look(&file);
                if last != Some(read) {
                    last = Some(read);
                    let mut log = lock(&log);
                    log.files.entry(file.clone()).or_default().push(read);
                    if let Some(digest) = read.1 {
                        log.texts.entry(digest).or_insert(text);
                    }
                }
                std::thread::sleep(PAUSE);
            }
        }));
    }

    /// Waits until this version of the record was seen here, too.
    pub async fn saw(&self, map: &ConfigMap) -> Result<()> {
        let version = map.resource_version().unwrap_or_default();
        until("the witness", PATIENCE, async || {
            let log = lock(&self.log);
            let seen = log.versions.iter().any(|seen| seen.resource_version == version);
            Ok(if seen { Seen::Yes(()) } else { Seen::NotYet(format!("no {version}")) })
        })
        .await
    }

    /// The highest generation that anybody has read.
    pub fn highest(&self) -> u64 {
        let log = lock(&self.log);
        log.files.values().flatten().filter_map(|read| read.0).max().unwrap_or_default()
    }

    /// Whether no generation that was read was lower than one before, whatever people did to the record.
    pub fn judge_generations(&self) -> Result<()> {
        for (file, reads) in &lock(&self.log).files {
            let told: Vec<u64> = reads.iter().filter_map(|read| read.0).collect();
            ensure!(told.is_sorted(), "{}: {told:?}", file.display());
        }
        Ok(())
    }

    /// How many different tables were read.
    pub fn tables(&self) -> usize {
        lock(&self.log).texts.len()
    }

    /// Whether all of it is as it must be, when each table has so many ranks.
    pub fn judge(self, ranks_in_each: usize) -> Result<()> {
        self.judge_sizes(&[ranks_in_each])
    }

    /// The same, when each has one of these numbers of ranks.
    pub fn judge_sizes(self, ranks_in_each: &[usize]) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.watch.abort();
        for thread in self.threads {
            ensure!(thread.join().is_ok(), "a reader died");
        }
        let log = lock(&self.log);
        let published = log.published(ranks_in_each)?;
        for (file, reads) in &log.files {
            log.judge_file(reads, &published)
                .with_context(|| format!("{}: {reads:?}", file.display()))?;
        }
        Ok(())
    }
}

impl Version {
    fn of(map: &ConfigMap) -> Self {
        let word = |key: &str| {
            map.annotations()
                .get(&format!("muster.dev/ranktable-{key}"))
                .cloned()
                .unwrap_or_default()
        };
        Self {
            resource_version: map.resource_version().unwrap_or_default(),
            generation: generation(map),
            digest: word("digest"),
            state: word("state"),
            text: table(map).to_owned(),
        }
    }
}

impl Log {
    /// The generations that each content had. Each generation has one content, and they never go back.
    fn published(&self, ranks_in_each: &[usize]) -> Result<BTreeMap<String, Vec<u64>>> {
        let (mut contents, mut before) = (BTreeMap::new(), 0);
        let mut published: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for version in &self.versions {
            let Version { generation, digest, state, text, .. } = version;
            ensure!(*generation >= before, "generation {generation} recorded after {before}");
            before = *generation;
            if state != "published" {
                ensure!(text.is_empty(), "a table is readable in state {state:?}: {text}");
                continue;
            }
            ensure!(
                Digest::of(text.as_bytes()).to_string() == *digest,
                "{digest} is not of {text}"
            );
            let known = contents.entry(*generation).or_insert_with(|| digest.clone());
            ensure!(known == digest, "generation {generation} is {known} and {digest}");
            let has = ranks(text)?.len();
            ensure!(ranks_in_each.contains(&has), "not {ranks_in_each:?} ranks: {text}");
            let generations = published.entry(digest.clone()).or_default();
            if generations.last() != Some(generation) {
                generations.push(*generation);
            }
        }
        Ok(published)
    }

    fn judge_file(&self, reads: &[Read], published: &BTreeMap<String, Vec<u64>>) -> Result<()> {
        let (mut told, mut there) = (0, 0);
        for (generation, digest) in reads {
            if let Some(generation) = *generation {
                ensure!(generation >= told, "generation {generation} was read after {told}");
                told = generation;
            }
            let Some(digest) = digest else { continue };
            let text = &self.texts[digest];
            let of = published.get(&digest.to_string());
            let of = of.with_context(|| format!("this was never published: {text}"))?;
            // The generation beside it may be behind for a moment, but never ahead.
            let least = there.max(generation.unwrap_or_default());
            let next = of.iter().find(|of| **of >= least);
            there =
                *next.with_context(|| format!("older than {least}: generations {of:?}: {text}"))?;
        }
        Ok(())
    }
}

fn look(file: &Path) -> (Read, String) {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = std::fs::read_to_string(file.with_file_name(generation_file(name)));
    let generation = beside.ok().and_then(|text| text.trim().parse().ok());
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let digest = (!text.is_empty()).then(|| Digest::of(text.as_bytes()));
    ((generation, digest), text)
}

fn lock(log: &Mutex<Log>) -> std::sync::MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
