//! The one task that drives all nodes: takes in events, steps pods, starts what has to be done.
//!
//! Nothing here waits: requests and files are handled by tasks that come back with an event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::Client;
use muster_objects::meta;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::containers::Started;
use super::lifecycle::{Blocked, Input, PodPlan, PodRun};
use super::podresources::View;
use super::post::PostOutcome;
use super::prepare::{Prepared, Tokens};
use super::volumes::{Object, Volume};
use super::watch::{NodeState, PARALLEL};
use super::{KubeletError, KubeletOptions, Logs, NodeSpec, node};
use crate::clock::Clock;

mod nodes;
mod outside;
mod pods;
#[cfg(test)]
mod tests;

/// What the engine hears.
#[derive(Debug)]
pub(super) enum Event {
    /// A bound pod is new or changed.
    Applied(Value),
    /// A bound pod is gone.
    Deleted(Value),
    /// The uids of all bound pods; all others are gone.
    Listed(Vec<String>),
    /// A ConfigMap or Secret changed.
    Changed {
        namespace: String,
        object: Object,
    },
    /// A pod's volumes are written, or why not.
    Prepared {
        uid: String,
        epoch: u64,
        result: Result<Prepared, Blocked>,
    },
    /// A closure or process ended.
    Exited {
        uid: String,
        container: String,
        attempt: u32,
        code: i32,
    },
    /// A status is written.
    Wrote {
        uid: String,
        epoch: u64,
        outcome: PostOutcome,
    },
    /// See [`super::NodeHandle`].
    Health {
        node: String,
        device: String,
        healthy: bool,
        done: oneshot::Sender<bool>,
    },
    Stop {
        node: String,
        done: oneshot::Sender<()>,
    },
    Restart {
        node: String,
        done: oneshot::Sender<Result<(), KubeletError>>,
    },
    /// The pods of a node that restarts, as the API has them, or why they could not be read.
    Reread {
        node: String,
        epoch: u64,
        pods: Result<Vec<Value>, KubeletError>,
        done: oneshot::Sender<Result<(), KubeletError>>,
    },
}

struct Node {
    state: NodeState,
    /// Last byte of the addresses in use.
    addresses: HashSet<u8>,
    /// The checkpoint of a node without files.
    disk: String,
    /// Ends the pod-resources service.
    service: CancellationToken,
    served: Option<tokio::task::JoinHandle<()>>,
    /// Which life of the kubelet this is, and what ends with it.
    epoch: u64,
    life: CancellationToken,
    /// While the node restarts: what the watch said meanwhile.
    aside: Option<Vec<Value>>,
}

/// One pod on one of the nodes.
struct Pod {
    /// Events of an earlier kubelet's work for the pod have another.
    epoch: u64,
    object: Arc<Value>,
    node: String,
    plan: PodPlan,
    /// `None`: refused.
    run: Option<PodRun>,
    volumes: Arc<Vec<Volume>>,
    outside: Vec<String>,
    tokens: Tokens,
    env: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether a preparation is under way, and whether another is wanted after it.
    preparing: bool,
    prepare_again: bool,
    /// When volumes are looked at next.
    sync_at: Option<Timestamp>,
    /// The status last sent.
    sent: Value,
    sending: bool,
    deleting: bool,
}

/// The state of all nodes.
pub(super) struct Engine {
    client: Client,
    clock: Clock,
    options: KubeletOptions,
    logs: Logs,
    events: mpsc::UnboundedSender<Event>,
    stop: CancellationToken,
    /// All that was started here, so that the end can be waited for.
    tasks: TaskTracker,
    /// The last one given.
    epoch: u64,
    requests: Arc<Semaphore>,
    nodes: BTreeMap<String, Node>,
    pods: HashMap<String, Pod>,
    /// Which pods use a ConfigMap or Secret of a namespace. Some of them may be gone.
    users: HashMap<(String, Object), BTreeSet<String>>,
    /// Closures and processes that run, by pod and container: they outlive a kubelet.
    running: HashMap<(String, String), Started>,
    /// Ends that came while the kubelet was down.
    unseen: HashMap<(String, String), (u32, i32)>,
    times: BinaryHeap<Reverse<(Timestamp, String)>>,
}

// === impl Engine ===

impl Engine {
    pub fn new(
        client: Client,
        clock: Clock,
        options: KubeletOptions,
        logs: Logs,
        events: mpsc::UnboundedSender<Event>,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        Self {
            client,
            clock,
            options,
            logs,
            events,
            stop: stop.clone(),
            tasks: tasks.clone(),
            epoch: 0,
            requests: Arc::new(Semaphore::new(PARALLEL)),
            nodes: BTreeMap::new(),
            pods: HashMap::new(),
            users: HashMap::new(),
            running: HashMap::new(),
            unseen: HashMap::new(),
            times: BinaryHeap::new(),
        }
    }

    /// Lays the node out and opens its socket.
    pub async fn add_node(
        &mut self,
        spec: Arc<NodeSpec>,
    ) -> Result<Arc<Mutex<View>>, KubeletError> {
        if spec.files && spec.hardware {
            let done = spec.profile.lay_out(&spec.root, spec.index);
            done.map_err(|error| KubeletError::Files { node: spec.name.clone(), error })?;
            // Hundreds of files: whoever waits with us gets a turn between nodes.
            tokio::task::yield_now().await;
        }
        let view = Arc::new(Mutex::new(View::default()));
        let up = Arc::new(AtomicBool::new(false));
        let state =
            NodeState { spec: spec.clone(), view: view.clone(), up, since: self.clock.now() };
        let service = CancellationToken::new();
        let node = Node {
            state,
            addresses: HashSet::new(),
            disk: String::new(),
            service,
            served: None,
            epoch: 0,
            life: self.stop.child_token(),
            aside: None,
        };
        self.nodes.insert(spec.name.clone(), node);
        self.boot(&spec.name).await?;
        Ok(view)
    }

    /// Registers every node with the API.
    pub async fn register_all(&self) -> Result<(), KubeletError> {
        let now = self.clock.now();
        let nodes: Vec<(Arc<NodeSpec>, Value)> =
            self.nodes.values().map(|n| (n.state.spec.clone(), n.state.status(now))).collect();
        stream::iter(nodes)
            .map(|(spec, status)| async move {
                let done = node::register(&self.client, &spec, &status).await;
                done.map_err(|error| KubeletError::Register {
                    node: spec.name.clone(),
                    error: Box::new(error),
                })
            })
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await
    }

    /// What the lease timer needs.
    pub fn states(&self) -> Vec<NodeState> {
        self.nodes.values().map(|node| node.state.clone()).collect()
    }

    /// Runs until stopped.
    pub async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Event>) {
        let stop = self.stop.clone();
        loop {
            let next = self.times.peek().map(|Reverse((at, _))| *at);
            let wake = async {
                match next {
                    Some(at) => self.clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                event = inbox.recv() => match event {
                    Some(event) => self.handle(event).await,
                    None => break,
                },
                () = wake => self.tick(),
            }
        }
        let now = self.clock.now();
        for started in self.running.values() {
            started.stop(now);
        }
        for node in self.nodes.values_mut() {
            node.service.cancel();
            if let Some(served) = node.served.take() {
                // Connections that stay open must not keep us.
                served.abort();
            }
        }
    }

    async fn handle(&mut self, event: Event) {
        match event {
            Event::Applied(pod) => self.applied(pod),
            Event::Deleted(pod) => self.forget(meta::uid(&pod)),
            Event::Listed(uids) => self.keep_only(&uids.into_iter().collect(), None),
            Event::Changed { namespace, object } => self.changed(&namespace, &object),
            Event::Prepared { uid, epoch, result } if self.is_current(&uid, epoch) => {
                self.prepared(&uid, result);
            }
            Event::Exited { uid, container, attempt, code } => {
                let ran = self.running.remove(&(uid.clone(), container.clone()));
                if self.pods.contains_key(&uid) {
                    self.step(&uid, Input::Exited { container, attempt, code });
                } else if ran.is_some() {
                    // Of a forgotten pod nobody will ask.
                    self.unseen.insert((uid, container), (attempt, code));
                }
            }
            Event::Wrote { uid, epoch, outcome } if self.is_current(&uid, epoch) => {
                self.wrote(&uid, outcome);
            }
            Event::Prepared { .. } | Event::Wrote { .. } => {}
            Event::Health { node, device, healthy, done } => {
                self.set_health(&node, &device, healthy, done);
            }
            Event::Stop { node, done } => {
                self.halt(&node).await;
                // Whoever asked may have gone.
                let _heard = done.send(());
            }
            Event::Restart { node, done } => self.restart(node, done).await,
            Event::Reread { node, epoch, pods, done } => {
                // Whoever asked may have gone.
                let _heard = done.send(self.reread(&node, epoch, pods));
            }
        }
    }

    /// Whether this is of the pod as this kubelet has it, and not of an earlier life.
    fn is_current(&self, uid: &str, epoch: u64) -> bool {
        self.pods.get(uid).is_some_and(|pod| pod.epoch == epoch)
    }

    fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Steps every pod whose time has come.
    fn tick(&mut self) {
        let now = self.clock.now();
        while let Some(Reverse((at, _))) = self.times.peek() {
            if *at > now {
                break;
            }
            let Some(Reverse((_, uid))) = self.times.pop() else { break };
            if let Some(pod) = self.pods.get_mut(&uid)
                && pod.sync_at.is_some_and(|at| at <= now)
            {
                pod.sync_at = None;
                self.prepare(&uid);
            }
            self.step(&uid, Input::Tick);
        }
    }
}
