//! What has changed, and which groups that concerns.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::broadcast::Receiver;

use super::Sources;
use crate::watch::{Missed, drain, heard};
use muster_hub::Changed;

/// One change.
#[derive(Debug)]
pub enum Change {
    /// Of a pod.
    Pod(ObjectRef<Pod>),
    /// Of a record.
    Record(ObjectRef<ConfigMap>),
    /// Of a template or a parser.
    Template,
    /// Of what a node's agent says.
    Node(Changed),
    /// Something was missed: look at everything.
    All,
}

/// Everything that may change.
pub struct Feed {
    pods: Receiver<ObjectRef<Pod>>,
    records: Receiver<ObjectRef<ConfigMap>>,
    templates: Receiver<ObjectRef<ConfigMap>>,
    nodes: Receiver<Changed>,
}

// === impl Feed ===

impl Feed {
    /// Hears from now on.
    pub fn new(sources: &Sources) -> Self {
        Self {
            pods: sources.pods.subscribe(),
            records: sources.records.subscribe(),
            templates: sources.templates.maps().subscribe(),
            nodes: sources.hub.subscribe(),
        }
    }

    /// The next change. None when a source has ended.
    pub async fn next(&mut self) -> Option<Change> {
        tokio::select! {
            change = self.pods.recv() => heard(change, Change::Pod),
            change = self.records.recv() => heard(change, Change::Record),
            change = self.templates.recv() => heard(change, |_| Change::Template),
            change = self.nodes.recv() => heard(change, Change::Node),
        }
    }

    /// What has come in the meantime: many small changes are looked at together.
    pub fn more(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        drain(&mut self.pods, &mut changes, Change::Pod);
        drain(&mut self.records, &mut changes, Change::Record);
        drain(&mut self.templates, &mut changes, |_| Change::Template);
        drain(&mut self.nodes, &mut changes, Change::Node);
        changes
    }
}

impl Missed for Change {
    fn missed() -> Self {
        Self::All
    }
}

/// The group that a record belongs to.
pub fn group_of(map: &ConfigMap) -> Option<super::member::GroupKey> {
    let name = map.labels().get(crate::names::RANK_GROUP)?.clone();
    let key = super::member::GroupKey { namespace: map.namespace()?, name };
    (crate::names::record(&key.name) == map.name_any()).then_some(key)
}
