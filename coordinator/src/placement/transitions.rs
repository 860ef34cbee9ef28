//! Events when pods get a node and when they must go: on the pod, on its group and on whoever owns the group. One for each
//! change, written after it was done; few at once, so that bindings do not wait for words.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::ResourceExt as _;
use muster_scheduler::input::{Dialect, PodGroup};
use muster_scheduler_state::evicted::{self, Batch, EVICT};
use muster_scheduler_state::fault::Group;
use muster_scheduler_state::object::{Name, shown};
use muster_scheduler_state::{Bind, Cluster, Evict};
use tokio::sync::Semaphore;

use crate::events::Events;

/// Reason of a pod's event: it has a node.
pub const SCHEDULED: &str = "Scheduled";
/// Writes at once.
const WRITES: usize = 4;

/// Writes the events. Copies share their permits.
#[derive(Clone)]
pub struct Transitions {
    events: Events,
    permits: Arc<Semaphore>,
}

/// Whom an eviction is told to besides its pods.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    /// The group.
    group: Option<ObjectReference>,
    /// Who owns the group.
    owner: Option<ObjectReference>,
}

// === impl Transitions ===

impl Transitions {
    /// Nothing is written yet.
    pub fn new(events: Events) -> Self {
        Self { events, permits: Arc::new(Semaphore::new(WRITES)) }
    }

    /// A pod has a node.
    pub async fn scheduled(&self, bind: &Bind, pool: &str) {
        let Ok(_permit) = self.permits.acquire().await else { return };
        let (pod, node) = (shown(&bind.pod), &bind.node);
        let note = format!("Successfully assigned pod {pod} to node {node} at node-pool {pool}");
        self.events.normal(&of_pod(&bind.pod, &bind.uid), SCHEDULED, note).await;
    }

    /// A pod goes.
    pub async fn evicted(&self, evict: &Evict, message: String) {
        let Ok(_permit) = self.permits.acquire().await else { return };
        let about = of_pod(&evict.pod, &evict.uid);
        self.events.warning(&about, evicted::reason(&evict.why), message).await;
    }

    /// Pods of a group have gone. `seen` is one of them: it names its owner if the group has none.
    pub async fn batch(&self, gone: &[Evict], audience: Audience, seen: Option<&Pod>) {
        let Some(first) = gone.first() else { return };
        let Ok(_permit) = self.permits.acquire().await else { return };
        let pods: Vec<&Name> = gone.iter().map(|one| &one.pod).collect();
        let message = evicted::message(&pods, &first.why);
        if let Some(group) = audience.group.filter(|_| !evicted::is_noted(&first.why)) {
            let annotations = evicted::annotations(gone.len(), &first.why);
            self.events.annotated(&group, EVICT, message.clone(), annotations).await;
        }
        if let Some(owner) = audience.owner.or_else(|| seen.and_then(controller)) {
            self.events.warning(&owner, evicted::reason(&first.why), message).await;
        }
    }
}

// === impl Audience ===

impl Audience {
    /// Of a batch, by what is known of its group.
    pub fn of(cluster: &Cluster, batch: &Batch) -> Self {
        let Some((dialect, name)) = &batch.group else { return Self::default() };
        let Some(known) = cluster.pod_group(*dialect, name) else { return Self::default() };
        let group = Some(of_group(&(*dialect, name.clone()), known));
        let owners = &known.metadata.owner_references;
        let first = owners.iter().find(|one| one.controller == Some(true)).or(owners.first());
        let owner = first.map(|owner| ObjectReference {
            api_version: Some(owner.api_version.clone()),
            kind: Some(owner.kind.clone()),
            namespace: Some(name.0.to_string()),
            name: Some(owner.name.clone()),
            uid: Some(owner.uid.clone()),
            ..ObjectReference::default()
        });
        // A pod of its own group is told already.
        Self { group, owner: owner.filter(|owner| owner.kind.as_deref() != Some("Pod")) }
    }
}

/// Who controls a pod.
fn controller(pod: &Pod) -> Option<ObjectReference> {
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    Some(ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        namespace: pod.namespace(),
        name: Some(owner.name.clone()),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    })
}

fn of_pod(pod: &Name, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.0.to_string()),
        name: Some(pod.1.to_string()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn of_group((dialect, name): &Group, group: &PodGroup) -> ObjectReference {
    let version = match dialect {
        Dialect::Kai => "scheduling.run.ai/v2alpha2",
        Dialect::Coscheduling => "scheduling.x-k8s.io/v1alpha1",
        Dialect::Volcano => "scheduling.volcano.sh/v1beta1",
    };
    ObjectReference {
        api_version: Some(version.to_owned()),
        kind: Some("PodGroup".to_owned()),
        namespace: Some(name.0.to_string()),
        name: Some(name.1.to_string()),
        uid: Some(group.metadata.uid.clone()),
        ..ObjectReference::default()
    }
}
