//! What the kubelet knows: which pod holds which device, told as soon as it is so.
//!
//! ```text
//!   pods, inventory, checkpoint rewritten, socket made anew, slow poll
//!        └──▶ (10 ms of quiet, ten times a second at most)
//!                └──▶ List, checkpoint ──▶ assign ──▶ channel, changes only
//! ```
//!
//! The kubelet assigns devices when it admits a pod and writes its checkpoint at once, so the change of that file is
//! the moment: the pod's containers have not started yet. When neither socket nor checkpoint can be read, the last
//! answer stays for the pods that are still there. A single pod that cannot be told yet is asked for alone (Get), and
//! now and then what the kubelet could give is compared with what discovery sees (GetAllocatableResources).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_proto::device::Inventory;
use muster_proto::pod::{PodDevices, PodRef};
use muster_proto::podresources::v1::{
    AllocatableResourcesResponse, ListPodResourcesResponse, PodResources,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::directories::Directories;
use crate::host::Host;
use crate::pods::PodMap;
use crate::problem::{Area, Finding, Problems};

pub mod assign;
pub mod checkpoint;
pub mod device_id;
pub mod offered;
pub mod podresources;

use assign::{AssignInput, Assignment, assign};
use checkpoint::Checkpoint;
use device_id::ResourceNames;
use podresources::Socket;

/// Changes that come this soon after each other are one.
const QUIET: Duration = Duration::from_millis(10);

/// How often the kubelet is asked within a second, at most. It serves a hundred, to everybody together.
const MOST_PER_SECOND: usize = 10;

/// A pod that the checkpoint has, and that has not been listed for so long, has ended. A kubelet that has just started
/// answers before it knows its pods.
const ENDED: Duration = Duration::from_secs(3);

/// Pods that cannot be told delay the first answer by so much at most.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// How often the kubelet is asked what it could give: as a rule, and while that differs from what is there or is not
/// known.
const OFFERS: Duration = Duration::from_secs(300);
const OFFERS_DIFFER: Duration = Duration::from_secs(30);

/// How to follow the kubelet.
#[derive(Clone, Debug)]
pub struct KubeletSettings {
    /// The kubelet's root directory, as on the node.
    pub root: String,
    /// The resources whose devices are ours.
    pub resources: ResourceNames,
    /// How often to look though nothing changed.
    pub poll: Duration,
    /// The same while a pod holds something that cannot be told yet.
    pub poll_unresolved: Duration,
    /// How long one call may take.
    pub limit: Duration,
}

/// Where the answers go to and come from.
#[derive(Debug)]
pub struct Channels {
    /// The pods of this node.
    pub pods: watch::Receiver<Arc<PodMap>>,
    /// The devices of this node.
    pub inventory: watch::Receiver<Arc<Inventory>>,
    /// Whether all pods of this node have been seen once.
    pub listed: watch::Receiver<bool>,
    /// Which pod holds which, sorted by pod.
    pub out: watch::Sender<Arc<Vec<PodDevices>>>,
    /// Becomes true when that has been found out for all pods once: until then "none" means "not known".
    pub heard: watch::Sender<bool>,
}

/// When the kubelet was asked, so that it is not asked too often.
#[derive(Debug, Default)]
struct Pace {
    asked: VecDeque<Instant>,
}

/// Since when uids that the checkpoint has are missing in the kubelet's list.
#[derive(Debug, Default)]
struct Absences(BTreeMap<String, Instant>);

/// The kubelet's last list, and whether a part of it can be asked for.
#[derive(Debug)]
struct Lister {
    socket: Socket,
    last: Option<(Instant, ListPodResourcesResponse)>,
    /// Whether the kubelet refused Get: before 1.34 it does.
    no_get: bool,
    offers: Option<AllocatableResourcesResponse>,
    offers_asked: Option<Instant>,
}

// === impl KubeletSettings ===

impl Default for KubeletSettings {
    fn default() -> Self {
        Self {
            root: "/var/lib/kubelet".to_owned(),
            resources: ResourceNames::default(),
            poll: Duration::from_secs(10),
            poll_unresolved: Duration::from_secs(1),
            limit: Duration::from_secs(5),
        }
    }
}

// === impl Pace ===

impl Pace {
    /// The earliest moment at which to ask again, and that it is taken.
    fn take(&mut self, now: Instant) -> Instant {
        let mut at = now + QUIET;
        if self.asked.len() >= MOST_PER_SECOND
            && let Some(first) = self.asked.pop_front()
        {
            at = at.max(first + Duration::from_secs(1));
        }
        self.asked.push_back(at);
        at
    }
}

/// Follows the kubelet until nobody tells of pods or devices any more.
pub async fn follow(
    host: Host,
    settings: KubeletSettings,
    directories: &Directories,
    channels: Channels,
    problems: Problems,
) {
    let Channels { mut pods, mut inventory, mut listed, out, heard } = channels;
    let root = settings.root.trim_end_matches('/');
    let file = format!("{root}/device-plugins/kubelet_internal_checkpoint");
    let watched = ["device-plugins", "pod-resources"].map(|name| {
        let path = format!("{root}/{name}");
        // The kubelet's root may be a link, and is watched where it really is.
        let real = host.resolve(&path).map(|real| real.to_string_lossy().into_owned());
        host.path(&real.unwrap_or(path))
    });
    let mut changes = directories.subscribe(watched.to_vec(), &problems);
    let mut lister = Lister::new(Socket::new(host.clone(), root, settings.limit));
    let mut pace = Pace::default();
    let mut absences = Absences::default();
    let mut began = None;
    // The only pod that cannot be told yet, when nothing happened but that time passed.
    let mut alone: Option<PodRef> = None;
    loop {
        tokio::time::sleep_until(pace.take(Instant::now())).await;
        let now = pods.borrow_and_update().clone();
        let devices = inventory.borrow_and_update().clone();
        let mut known = *listed.borrow_and_update();
        // None: the kubelet says nothing, and what was found before stays.
        let mut found = Some(Vec::new());
        let unresolved = match now.is_empty() {
            // Nobody to give anything to: also before the API was heard for the first time.
            true => {
                publish(&out, Vec::new());
                Vec::new()
            }
            false => {
                let listed = lister.list(alone.as_ref(), settings.poll, &problems).await;
                // Read after the list was had: it is never the older of the two, and it decides.
                let checkpoint = read(&host, &file, &problems).await;
                let last = out.borrow().clone();
                if listed.is_none() && checkpoint.is_none() {
                    let lives = |held: &&PodDevices| {
                        let key = (held.pod.namespace.clone(), held.pod.name.clone());
                        now.get(&key).is_some_and(|known| known.pod == held.pod)
                    };
                    publish(&out, last.iter().filter(lives).cloned().collect());
                    (known, found) = (false, None);
                    now.values().map(|meta| meta.pod.clone()).collect()
                } else {
                    let ended =
                        absences.note(&now, listed.as_ref(), checkpoint.as_ref(), Instant::now());
                    let Assignment { pods, findings, unresolved } = assign(AssignInput {
                        pods: &now,
                        listed: listed.as_ref(),
                        checkpoint: checkpoint.as_ref(),
                        inventory: &devices,
                        resources: &settings.resources,
                        last: &last,
                        ended: &ended,
                    });
                    publish(&out, pods);
                    found = Some(findings);
                    unresolved
                }
            }
        };
        if known && !*heard.borrow() {
            let began = *began.get_or_insert_with(Instant::now);
            if unresolved.is_empty() || began.elapsed() >= FIRST_ANSWER {
                heard.send_replace(true);
                // Whoever waits for news learns that "none" is the news.
                out.send_modify(|_| {});
            }
        }
        if let Some(mut found) = found {
            // After all that somebody waits for.
            found.extend(lister.offers(&devices, &settings.resources).await);
            problems.replace(Area::Assignment, found);
        }
        let poll = if unresolved.is_empty() { settings.poll } else { settings.poll_unresolved };
        let single = unresolved.len() == 1;
        alone = None;
        tokio::select! {
            changed = pods.changed() => if changed.is_err() { return },
            changed = inventory.changed() => if changed.is_err() { return },
            changed = listed.changed() => if changed.is_err() { return },
            () = changes.next() => {}
            () = tokio::time::sleep(poll) => {
                // A directory that came later is watched from now on.
                changes.again();
                alone = unresolved.into_iter().next().filter(|_| single);
            }
        }
    }
}

fn publish(out: &watch::Sender<Arc<Vec<PodDevices>>>, pods: Vec<PodDevices>) {
    out.send_if_modified(|last| {
        let changed = **last != pods;
        if changed {
            tracing::info!(pods = pods.len(), "devices of pods changed");
            *last = Arc::new(pods);
        }
        changed
    });
}

// === impl Absences ===

impl Absences {
    /// Takes in what is known now; returns the uids that have been missing for so long that their pods have ended.
    fn note(
        &mut self,
        pods: &PodMap,
        listed: Option<&ListPodResourcesResponse>,
        checkpoint: Option<&Checkpoint>,
        now: Instant,
    ) -> BTreeSet<String> {
        if let (Some(listed), Some(checkpoint)) = (listed, checkpoint) {
            let names: BTreeSet<(&str, &str)> = listed
                .pod_resources
                .iter()
                .map(|pod| (pod.namespace.as_str(), pod.name.as_str()))
                .collect();
            let kept: BTreeSet<&str> =
                checkpoint.entries.iter().map(|entry| entry.pod.as_str()).collect();
            let missing = pods.values().filter(|meta| {
                let name = (meta.pod.namespace.as_str(), meta.pod.name.as_str());
                !names.contains(&name) && kept.contains(meta.kubelet_uid())
            });
            let since = |uid: &str| self.0.get(uid).copied().unwrap_or(now);
            let missing = missing.map(|meta| meta.kubelet_uid());
            self.0 = missing.map(|uid| (uid.to_owned(), since(uid))).collect();
        }
        let long = |since: &Instant| now.duration_since(*since) >= ENDED;
        self.0.iter().filter(|(_, since)| long(since)).map(|(uid, _)| uid.clone()).collect()
    }
}

// === impl Lister ===

impl Lister {
    fn new(socket: Socket) -> Self {
        Self { socket, last: None, no_get: false, offers: None, offers_asked: None }
    }

    /// What all containers hold. When only one pod is of interest, and the last list is not older than `fresh`, the
    /// kubelet is asked for that pod alone.
    async fn list(
        &mut self,
        alone: Option<&PodRef>,
        fresh: Duration,
        problems: &Problems,
    ) -> Option<ListPodResourcesResponse> {
        let path = self.socket.path();
        if let Some(pod) = alone.filter(|_| !self.no_get)
            && let Some((at, mut list)) = self.last.take()
            && at.elapsed() < fresh
        {
            match self.socket.get(&pod.namespace, &pod.name).await {
                Ok(Some(told)) => {
                    let other = |it: &PodResources| {
                        (&it.namespace, &it.name) != (&pod.namespace, &pod.name)
                    };
                    list.pod_resources.retain(other);
                    list.pod_resources.push(told);
                    problems.clear(Area::PodResources, &path);
                    self.last = Some((at, list.clone()));
                    return Some(list);
                }
                // Not there, not there yet, or no answer: the list tells.
                Ok(None) => {}
                Err(error) => self.no_get = error.is_unimplemented(),
            }
        }
        match self.socket.list().await {
            Ok(listed) => {
                problems.clear(Area::PodResources, &path);
                self.last = Some((Instant::now(), listed.clone()));
                Some(listed)
            }
            Err(error) => {
                problems.raise(Area::PodResources, Finding::new(error.reason(), path, error));
                self.last = None;
                // Another kubelet may come.
                self.no_get = false;
                None
            }
        }
    }

    /// How what the kubelet could give differs from what is there. Kubelets that do not tell are believed.
    async fn offers(&mut self, inventory: &Inventory, resources: &ResourceNames) -> Vec<Finding> {
        let differ = |offers: &Option<AllocatableResourcesResponse>| match offers {
            Some(offers) => offered::compare(offers, inventory, resources),
            None => Vec::new(),
        };
        let found = differ(&self.offers);
        let agree = self.offers.is_some() && found.is_empty();
        let pause = if agree { OFFERS } else { OFFERS_DIFFER };
        if !inventory.settled || self.offers_asked.is_some_and(|at| at.elapsed() < pause) {
            return found;
        }
        self.offers_asked = Some(Instant::now());
        self.offers = match self.socket.allocatable().await {
            Ok(offers) => Some(offers),
            Err(error) => {
                tracing::debug!(%error, "what the kubelet could give is not known");
                None
            }
        };
        differ(&self.offers)
    }
}

async fn read(host: &Host, file: &str, problems: &Problems) -> Option<Checkpoint> {
    let (host, path) = (host.clone(), file.to_owned());
    let reading = move || match host.read_at_most(&path, checkpoint::LARGEST) {
        Ok(text) => Checkpoint::parse(&text)
            .map(Some)
            .map_err(|error| Finding::new(error.reason(), &path, error)),
        // No plugin has ever registered.
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(Finding::new(error.reason(), &path, error)),
    };
    // The file is on a disk, and may be large.
    let finding = match tokio::task::spawn_blocking(reading).await {
        Ok(Ok(read)) => {
            match read.as_ref().map_or(0, |read| read.unread) {
                0 => problems.clear(Area::Checkpoint, file),
                unread => {
                    let message = format!(
                        "{unread} entries cannot be read; their pods are told from pod-resources"
                    );
                    problems.raise(Area::Checkpoint, Finding::new("entries", file, message));
                }
            }
            return read;
        }
        Ok(Err(finding)) => finding,
        Err(error) => Finding::new("stopped", file, error),
    };
    problems.raise(Area::Checkpoint, finding);
    None
}

#[cfg(test)]
mod tests;
