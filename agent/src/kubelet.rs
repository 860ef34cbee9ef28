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
//! answer stays for the pods that are still there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use muster_proto::device::Inventory;
use muster_proto::pod::PodDevices;
use muster_proto::podresources::v1::ListPodResourcesResponse;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::directories::Directories;
use crate::host::Host;
use crate::pods::PodMap;
use crate::problem::{Area, Finding, Problems};

pub mod assign;
pub mod checkpoint;
pub mod device_id;
pub mod podresources;

use assign::{Assignment, Known, assign};
use checkpoint::Checkpoint;
use device_id::ResourceNames;
use podresources::Socket;

/// Changes that come this soon after each other are one.
const QUIET: Duration = Duration::from_millis(10);

/// How often the kubelet is asked within a second, at most. It serves a hundred, to everybody together.
const MOST_PER_SECOND: usize = 10;

/// How to follow the kubelet.
#[derive(Clone, Debug)]
pub struct Settings {
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

// === impl Settings ===

impl Default for Settings {
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
    settings: Settings,
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
    let mut socket = Socket::new(host.clone(), root, settings.limit);
    let mut pace = Pace::default();
    loop {
        tokio::time::sleep_until(pace.take(Instant::now())).await;
        let now = pods.borrow_and_update().clone();
        let devices = inventory.borrow_and_update().clone();
        let mut known = *listed.borrow_and_update();
        let unresolved = match now.is_empty() {
            // Nobody to give anything to: also before the API was heard for the first time.
            true => {
                publish(&out, Vec::new());
                0
            }
            false => {
                let listed = list(&mut socket, &problems).await;
                // Read after the list was had: it is never the older of the two, and it decides.
                let checkpoint = read(&host, &file, &problems).await;
                if listed.is_none() && checkpoint.is_none() {
                    let lives = |held: &&PodDevices| {
                        let key = (held.pod.namespace.clone(), held.pod.name.clone());
                        now.get(&key).is_some_and(|known| known.pod == held.pod)
                    };
                    let kept = out.borrow().iter().filter(lives).cloned().collect();
                    publish(&out, kept);
                    known = false;
                    1
                } else {
                    let Assignment { pods, findings, unresolved } = assign(Known {
                        pods: &now,
                        listed: listed.as_ref(),
                        checkpoint: checkpoint.as_ref(),
                        inventory: &devices,
                        resources: &settings.resources,
                    });
                    problems.replace(Area::Assignment, findings);
                    publish(&out, pods);
                    unresolved
                }
            }
        };
        if known && !*heard.borrow() {
            heard.send_replace(true);
            // Whoever waits for news learns that "none" is the news.
            out.send_modify(|_| {});
        }
        let poll = if unresolved > 0 { settings.poll_unresolved } else { settings.poll };
        tokio::select! {
            changed = pods.changed() => if changed.is_err() { return },
            changed = inventory.changed() => if changed.is_err() { return },
            changed = listed.changed() => if changed.is_err() { return },
            () = changes.next() => {}
            // A directory that came later is watched from now on.
            () = tokio::time::sleep(poll) => changes.again(),
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

async fn list(socket: &mut Socket, problems: &Problems) -> Option<ListPodResourcesResponse> {
    let path = socket.path();
    match socket.list().await {
        Ok(listed) => {
            problems.clear(Area::PodResources, &path);
            Some(listed)
        }
        Err(error) => {
            problems.raise(Area::PodResources, Finding::new(error.reason(), path, error));
            None
        }
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
