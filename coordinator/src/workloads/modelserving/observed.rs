//! What the reconciles of one ModelServing have seen of the objects that it owns. What has happened is the difference to what
//! is there now.
//!
//! What the controller has created is known before the watch shows it. Until it does, that the cache lacks it says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::ObjectMeta;
use muster_modelserving::api::ModelServing;
use muster_modelserving::naming;
use muster_modelserving::seen::{PodGroupApi, Seen};
use muster_modelserving::shape::Shape;
use muster_modelserving::step::Kind;
use serde_json::Value;
use tokio::time::Instant;

use super::written::PodGroup;
use super::{Caches, Key};
use crate::names;
use muster_runtime::overlay::{Newest, ObjectVersion, Overlay};
use muster_runtime::reflector::is_newer;

/// What an owned object is, and its name.
pub type OwnedName = (Kind, String);

/// An object that a ModelServing owns.
#[derive(Clone, Debug)]
pub enum OwnedObject {
    Pod(Arc<Pod>),
    Service(Arc<Service>),
    PodGroup(Arc<PodGroup>),
    Revision(Arc<ControllerRevision>),
}

/// What has happened to an owned object.
#[derive(Clone, Debug)]
pub enum OwnedChange {
    /// A pod has come or changed.
    Pod(Arc<Pod>),
    /// This is gone. It is as it was last seen.
    Gone(OwnedObject),
}

/// What the reconciles of one ModelServing have seen.
#[derive(Debug, Default)]
pub struct Observed {
    objects: BTreeMap<OwnedName, OwnedObject>,
    /// Created by the controller, and not shown by the watch yet.
    created: Overlay<OwnedName, ()>,
}

// === impl OwnedObject ===

impl OwnedObject {
    /// The answer of the API server to a create; none if it cannot be read.
    fn read(kind: Kind, object: Value) -> Option<Self> {
        let object = match kind {
            Kind::Pod => Self::Pod(serde_json::from_value(object).ok()?),
            Kind::Service => Self::Service(serde_json::from_value(object).ok()?),
            Kind::PodGroup => Self::PodGroup(serde_json::from_value(object).ok()?),
            Kind::ControllerRevision => Self::Revision(serde_json::from_value(object).ok()?),
        };
        Some(object)
    }

    /// What the cache has under this name, if it carries the name of this ModelServing.
    fn cached(caches: &Caches, key: &Key, (kind, name): &OwnedName) -> Option<Self> {
        let namespace = &key.namespace;
        let object = match kind {
            Kind::Pod => Self::Pod(caches.pods.named(namespace, name)?),
            Kind::Service => Self::Service(caches.services.named(namespace, name)?),
            Kind::PodGroup => Self::PodGroup(caches.pod_groups.named(namespace, name)?),
            Kind::ControllerRevision => Self::Revision(caches.revisions.named(namespace, name)?),
        };
        object.is_of(key).then_some(object)
    }

    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Pod(pod) => &pod.metadata,
            Self::Service(service) => &service.metadata,
            Self::PodGroup(group) => &group.metadata,
            Self::Revision(revision) => &revision.metadata,
        }
    }

    fn version(&self) -> &str {
        self.metadata().resource_version.as_deref().unwrap_or_default()
    }

    /// Whether it carries the name of this ModelServing.
    fn is_of(&self, key: &Key) -> bool {
        let labels = self.metadata().labels.as_ref();
        labels.and_then(|labels| labels.get(naming::NAME)) == Some(&key.name)
    }
}

// === impl Observed ===

impl Observed {
    /// Compares what was seen with what the caches have of these objects and of all that were seen. What has happened.
    pub fn observe(
        &mut self,
        caches: &Caches,
        key: &Key,
        owned: Vec<OwnedName>,
        now: Instant,
    ) -> Vec<OwnedChange> {
        let mut names: BTreeSet<OwnedName> = owned.into_iter().collect();
        names.extend(self.objects.keys().cloned());
        let mut changes = Vec::new();
        for name in names {
            let cached = OwnedObject::cached(caches, key, &name);
            if !self.is_behind(&name, cached.as_ref(), now) {
                self.replace(name, cached, &mut changes);
            }
        }
        let cached = |name: &OwnedName| OwnedObject::cached(caches, key, name);
        self.created.tidy(|name| cached(name).map(|it| ObjectVersion::from(it.metadata())), now);
        changes
    }

    /// Whether the cache does not show yet what the controller has created.
    fn is_behind(&self, name: &OwnedName, cached: Option<&OwnedObject>, now: Instant) -> bool {
        self.created.written(name).is_some() && {
            let version = cached.map(|object| ObjectVersion::from(object.metadata()));
            self.created.newest(name, version.as_ref(), now) == Newest::Written(&())
        }
    }

    /// The cache has this now, or nothing.
    fn replace(
        &mut self,
        name: OwnedName,
        cached: Option<OwnedObject>,
        changes: &mut Vec<OwnedChange>,
    ) {
        let before = match &cached {
            Some(now) => {
                let known = self.objects.get(&name);
                if known.is_some_and(|known| !is_newer(now.version(), known.version())) {
                    return;
                }
                self.objects.insert(name, now.clone())
            }
            None => self.objects.remove(&name),
        };
        let gone = before.filter(|before| match (&cached, before) {
            (Some(now), OwnedObject::Pod(before)) => now.metadata().uid != before.metadata.uid,
            (now, before) => now.is_none() && !matches!(before, OwnedObject::Revision(_)),
        });
        changes.extend(gone.map(OwnedChange::Gone));
        if let Some(OwnedObject::Pod(pod)) = cached {
            changes.push(OwnedChange::Pod(pod));
        }
    }

    /// What the controller has created and the watch has not shown for long: the API server is to be asked. With the uid.
    pub fn overdue(&self, now: Instant) -> Vec<(OwnedName, String)> {
        let overdue = self.created.overdue(now);
        overdue.map(|(name, version)| (name.clone(), version.uid.clone())).collect()
    }

    /// The API server was asked: it is still there, or not any more.
    pub fn asked(&mut self, name: &OwnedName, is_there: bool, now: Instant) {
        self.created.asked(name, is_there, now);
    }

    /// When the next of what the controller has created is overdue.
    pub fn overdue_at(&self, now: Instant) -> Option<Instant> {
        self.created.due(now).map(|after| now + after)
    }

    /// Whether an object of this name is known.
    pub fn has(&self, name: &OwnedName) -> bool {
        self.objects.contains_key(name)
    }

    /// The controller has created this: the API server answers with it.
    pub fn created(&mut self, kind: Kind, object: Value, key: &Key, now: Instant) {
        // What cannot be read is seen when the watch brings it.
        let Some(object) = OwnedObject::read(kind, object) else { return };
        let name = (kind, object.metadata().name.clone().unwrap_or_default());
        // What does not carry the ModelServing's name is not in the caches, and never will be.
        if !self.objects.contains_key(&name) && object.is_of(key) {
            self.created.wrote(name.clone(), ObjectVersion::from(object.metadata()), (), now);
            self.objects.insert(name, object);
        }
    }

    /// The pods.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.objects.values().filter_map(|object| match object {
            OwnedObject::Pod(pod) => Some(pod),
            _ => None,
        })
    }

    /// Those that are not on their way out.
    pub fn live_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods().filter(|pod| pod.metadata.deletion_timestamp.is_none())
    }

    /// The rank groups of pods that take part.
    pub fn rank_groups(&self) -> BTreeSet<&String> {
        let labels = self.live_pods().filter_map(|pod| pod.metadata.labels.as_ref());
        labels.filter_map(|labels| labels.get(names::RANK_GROUP)).collect()
    }

    /// All of it, for the machine.
    pub fn seen<'a>(
        &'a self,
        serving: &'a ModelServing,
        shape: Shape,
        api: PodGroupApi,
    ) -> Seen<'a> {
        let mut seen = Seen::new(serving, shape, api);
        for object in self.objects.values() {
            match object {
                OwnedObject::Pod(pod) => seen.pod(pod),
                OwnedObject::Service(service) => seen.service(service),
                OwnedObject::PodGroup(group) => seen.pod_group(&group.metadata, &group.rest),
                OwnedObject::Revision(revision) => seen.revision(revision),
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use muster_runtime::overlay::CACHE_LAG_MAX;
    use serde_json::json;

    use super::*;

    fn key() -> Key {
        Key { shape: Shape::Kthena, namespace: "serve".to_owned(), name: "llm".to_owned() }
    }

    fn name() -> OwnedName {
        (Kind::Pod, "llm-0".to_owned())
    }

    fn pod(uid: &str, version: u64) -> Value {
        json!({"metadata": {"name": "llm-0", "namespace": "serve", "uid": uid,
            "resourceVersion": version.to_string(), "labels": {naming::NAME: "llm"}}})
    }

    /// The cache has this, or nothing: what has happened, with uids.
    fn replace(observed: &mut Observed, cached: Option<Value>) -> Vec<String> {
        let mut changes = Vec::new();
        let cached = cached.and_then(|pod| OwnedObject::read(Kind::Pod, pod));
        observed.replace(name(), cached, &mut changes);
        let uid = |metadata: &ObjectMeta| metadata.uid.clone().unwrap_or_default();
        let said = changes.iter().map(|change| match change {
            OwnedChange::Pod(pod) => format!("changed {}", uid(&pod.metadata)),
            OwnedChange::Gone(object) => format!("gone {}", uid(object.metadata())),
        });
        said.collect()
    }

    #[test]
    fn a_pod_of_the_same_name_comes_after_the_one_before_is_gone() {
        let mut observed = Observed::default();
        assert_eq!(replace(&mut observed, Some(pod("u", 5))), ["changed u"]);
        assert_eq!(replace(&mut observed, Some(pod("u", 5))), [""; 0]);
        assert_eq!(replace(&mut observed, Some(pod("u", 4))), [""; 0], "the watch is behind");
        assert_eq!(replace(&mut observed, Some(pod("u", 6))), ["changed u"]);
        assert_eq!(replace(&mut observed, Some(pod("v", 7))), ["gone u", "changed v"]);
        assert_eq!(replace(&mut observed, None), ["gone v"]);
        assert_eq!(replace(&mut observed, None), [""; 0]);
    }

    #[test]
    fn a_pod_that_was_created_is_there_until_the_api_server_says_otherwise() {
        let (mut observed, now) = (Observed::default(), Instant::now());
        observed.created(Kind::Pod, pod("u", 5), &key(), now);
        assert!(observed.has(&name()) && observed.is_behind(&name(), None, now));
        let late = now + CACHE_LAG_MAX;
        assert_eq!(observed.overdue(now), []);
        assert_eq!(observed.overdue(late), [(name(), "u".to_owned())]);
        observed.asked(&name(), true, late);
        assert!(observed.is_behind(&name(), None, late));
        assert_eq!(observed.overdue_at(late), Some(late + CACHE_LAG_MAX));
        observed.asked(&name(), false, late);
        assert!(!observed.is_behind(&name(), None, late));
        assert_eq!(replace(&mut observed, None), ["gone u"]);
    }

    #[test]
    fn a_pod_that_does_not_carry_the_name_is_not_waited_for() {
        let (mut observed, now) = (Observed::default(), Instant::now());
        let mut other = pod("u", 5);
        other["metadata"]["labels"] = json!({});
        observed.created(Kind::Pod, other, &key(), now);
        assert!(!observed.has(&name()) && observed.overdue_at(now).is_none());
    }
}
