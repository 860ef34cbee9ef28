//! Pods that have no group yet, and groups whose pods are to be counted again. The scheduler's loop puts them in, the controller takes
//! them out.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_podgrouper::Object;
use muster_scheduler_state::object::Name;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::controller::GroupingKey;

/// A group that counts pods is reconciled again after this: some may have come or gone since they were counted.
const SETTLES: Duration = Duration::from_secs(2);
/// Groups that wait to be counted again.
const MAX_COUNTED: usize = 1024;
/// Wakes that the controller may miss before it looks at all that waits.
const WAKES: usize = 4096;

/// What waits. Copies share it.
#[derive(Clone)]
pub struct Waiting {
    state: Arc<Mutex<State>>,
    wakes: broadcast::Sender<GroupingKey>,
}

struct State {
    /// Whether pods are grouped; those that come meanwhile wait.
    is_on: bool,
    pods: HashMap<Name, UngroupedPod>,
    /// When the pods of each group are counted again, as one of them asks for it.
    groups: BTreeMap<Name, (Instant, Object)>,
}

/// A pod that has no group yet.
#[derive(Clone)]
pub struct UngroupedPod {
    /// Its uid.
    pub uid: String,
    /// All of it.
    pub pod: Arc<Value>,
}

// === impl Waiting ===

impl Default for Waiting {
    fn default() -> Self {
        let state = State { is_on: true, pods: HashMap::new(), groups: BTreeMap::new() };
        Self { state: Arc::new(Mutex::new(state)), wakes: broadcast::channel(WAKES).0 }
    }
}

impl Waiting {
    /// Receives what is to be reconciled from now on.
    pub(super) fn wakes(&self) -> broadcast::Receiver<GroupingKey> {
        self.wakes.subscribe()
    }

    /// All that waits.
    pub(super) fn keys(&self) -> Vec<GroupingKey> {
        let state = self.state.lock();
        let pods = state.pods.keys().cloned().map(GroupingKey::Pod);
        pods.chain(state.groups.keys().cloned().map(GroupingKey::Group)).collect()
    }

    /// Pods are grouped from now on, or they are not.
    pub fn switch(&self, on: bool) {
        if std::mem::replace(&mut self.state.lock().is_on, on) != on {
            self.keys().into_iter().for_each(|key| self.wake(key));
        }
    }

    /// A pod has no group, as it is now.
    pub fn add(&self, name: Name, uid: String, pod: Value) {
        let pod = UngroupedPod { uid, pod: pod.into() };
        self.state.lock().pods.insert(name.clone(), pod);
        self.wake(GroupingKey::Pod(name));
    }

    /// A pod is gone, or has a group. Whether one of this uid has waited, or any if none is given.
    pub fn remove(&self, name: &Name, uid: Option<&str>) -> bool {
        let pods = &mut self.state.lock().pods;
        let waits = pods.get(name).is_some_and(|pod| uid.is_none_or(|uid| pod.uid == uid));
        waits && pods.remove(name).is_some()
    }

    /// A pod that waits, and whether pods are grouped.
    pub(super) fn pod(&self, name: &Name) -> (Option<UngroupedPod>, bool) {
        let state = self.state.lock();
        (state.pods.get(name).cloned(), state.is_on)
    }

    /// The pods of a group were counted for this pod. They are counted again when nobody has asked for a while.
    pub(super) fn count_again(&self, group: Name, pod: &Object) {
        {
            let groups = &mut self.state.lock().groups;
            if groups.len() >= MAX_COUNTED && !groups.contains_key(&group) {
                return;
            }
            groups.insert(group.clone(), (Instant::now() + SETTLES, pod.clone()));
        }
        self.wake(GroupingKey::Group(group));
    }

    /// When the pods of a group are counted again, or the pod that asks for it if that is now.
    pub(super) fn counted(&self, group: &Name, now: Instant) -> Option<Result<Object, Duration>> {
        let groups = &mut self.state.lock().groups;
        let due = groups.get(group)?.0;
        if due > now {
            return Some(Err(due - now));
        }
        groups.remove(group).map(|(_, pod)| Ok(pod))
    }

    fn wake(&self, key: GroupingKey) {
        // Nobody listens before the controller runs; it begins with all that waits.
        let _nobody_listens = self.wakes.send(key);
    }
}
