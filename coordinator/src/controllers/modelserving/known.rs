//! What one ModelServing's task has seen of its things: what has happened is the difference to what is there now.
//!
//! What we have made ourselves is known before the watch tells of it. Until it does, that the cache lacks it says
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Resource, ResourceExt};
use muster_modelserving::api::ModelServing;
use muster_modelserving::naming;
use muster_modelserving::seen::{PodGroupApi, Seen};
use muster_modelserving::shape::Shape;
use serde_json::Value;
use tokio::time::Instant;

use super::written::PodGroup;
use super::{Key, Sources};
use crate::names;
use crate::watch::Watch;
use crate::watch::is_newer;

/// What we have made should be in the cache after this long.
const DOUBT: Duration = Duration::from_secs(5);

/// What a ModelServing has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Thing {
    /// A pod.
    Pod,
    /// A service.
    Service,
    /// A PodGroup.
    PodGroup,
    /// A ControllerRevision.
    Revision,
}

/// What has happened.
#[derive(Clone, Debug)]
pub enum Happened {
    /// A pod has come or changed.
    PodChanged(Arc<Pod>),
    /// A pod is gone.
    PodGone(Arc<Pod>),
    /// A service is gone.
    ServiceGone(Arc<Service>),
    /// A PodGroup is gone.
    PodGroupGone(Arc<PodGroup>),
}

/// Things of one kind, by name.
#[derive(Debug)]
struct Shelf<K> {
    things: BTreeMap<String, Arc<K>>,
    /// Made by us, and not yet in the cache: since when.
    fresh: BTreeMap<String, Instant>,
}

/// What one ModelServing's task has seen.
#[derive(Debug, Default)]
pub struct Known {
    pods: Shelf<Pod>,
    services: Shelf<Service>,
    pod_groups: Shelf<PodGroup>,
    revisions: Shelf<ControllerRevision>,
}

// === impl Shelf ===

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self { things: BTreeMap::new(), fresh: BTreeMap::new() }
    }
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Shelf<K> {
    /// Looks at one of them; what was there before, and what is there now, if that is something else.
    fn look(
        &mut self,
        watch: &Watch<K>,
        key: &Key,
        name: &str,
    ) -> (Option<Arc<K>>, Option<Arc<K>>) {
        let now = watch.named(&key.namespace, name).filter(|thing| is_of(thing.meta(), key));
        let before = self.things.get(name).cloned();
        let version = |thing: &Arc<K>| thing.resource_version().unwrap_or_default();
        match (&before, &now) {
            (Some(_), None) if self.fresh.contains_key(name) => return (None, None),
            (Some(before), Some(now)) if !is_newer(&version(now), &version(before)) => {
                // The watch has not come as far as we have, or brings what we have made.
                if version(now) == version(before) {
                    self.fresh.remove(name);
                }
                return (None, None);
            }
            _ => {}
        }
        self.fresh.remove(name);
        match &now {
            Some(now) => drop(self.things.insert(name.to_owned(), now.clone())),
            None => drop(self.things.remove(name)),
        }
        (before, now)
    }

    /// We have made this.
    fn made(&mut self, thing: K, key: &Key) {
        let name = thing.name_any();
        // What does not carry our name is not in the caches, and never will be.
        if !self.things.contains_key(&name) && is_of(thing.meta(), key) {
            self.fresh.insert(name.clone(), Instant::now());
            self.things.insert(name, Arc::new(thing));
        }
    }

    /// What should have been in the cache by now: names and uids.
    fn doubtful(&self, now: Instant) -> impl Iterator<Item = (String, String)> {
        let old = self.fresh.iter().filter(move |(_, since)| **since + DOUBT <= now);
        old.filter_map(|(name, _)| Some((name.clone(), self.things.get(name)?.uid()?)))
    }
}

// === impl Known ===

impl Known {
    /// Looks at one thing.
    pub fn look(
        &mut self,
        sources: &Sources,
        key: &Key,
        thing: Thing,
        name: &str,
        happened: &mut Vec<Happened>,
    ) {
        match thing {
            Thing::Pod => {
                let (before, now) = self.pods.look(&sources.pods, key, name);
                let same =
                    |before: &Arc<Pod>| now.as_ref().is_some_and(|now| now.uid() == before.uid());
                happened.extend(before.filter(|it| !same(it)).map(Happened::PodGone));
                happened.extend(now.map(Happened::PodChanged));
            }
            Thing::Service => {
                let (before, now) = self.services.look(&sources.services, key, name);
                happened.extend(before.filter(|_| now.is_none()).map(Happened::ServiceGone));
            }
            Thing::PodGroup => {
                let (before, now) = self.pod_groups.look(&sources.pod_groups, key, name);
                happened.extend(before.filter(|_| now.is_none()).map(Happened::PodGroupGone));
            }
            Thing::Revision => drop(self.revisions.look(&sources.revisions, key, name)),
        }
    }

    /// What we have made and the cache has not shown for long: the API server is to be asked. Name and uid.
    pub fn doubtful(&self, now: Instant) -> Vec<(Thing, String, String)> {
        let pods = self.pods.doubtful(now).map(|(name, uid)| (Thing::Pod, name, uid));
        let services = self.services.doubtful(now).map(|(name, uid)| (Thing::Service, name, uid));
        let groups = self.pod_groups.doubtful(now).map(|(name, uid)| (Thing::PodGroup, name, uid));
        let revisions =
            self.revisions.doubtful(now).map(|(name, uid)| (Thing::Revision, name, uid));
        pods.chain(services).chain(groups).chain(revisions).collect()
    }

    /// The API server was asked: it is still there, or not any more.
    pub fn answered(&mut self, thing: Thing, name: &str, there: bool) {
        let fresh = self.fresh_mut(thing);
        match there {
            true => drop(fresh.insert(name.to_owned(), Instant::now())),
            false => drop(fresh.remove(name)),
        }
    }

    fn fresh_mut(&mut self, thing: Thing) -> &mut BTreeMap<String, Instant> {
        match thing {
            Thing::Pod => &mut self.pods.fresh,
            Thing::Service => &mut self.services.fresh,
            Thing::PodGroup => &mut self.pod_groups.fresh,
            Thing::Revision => &mut self.revisions.fresh,
        }
    }

    /// When the next of what we have made becomes doubtful.
    pub fn doubt_at(&self) -> Option<Instant> {
        let fresh =
            [&self.pods.fresh, &self.services.fresh, &self.pod_groups.fresh, &self.revisions.fresh];
        fresh.iter().flat_map(|fresh| fresh.values()).min().map(|since| *since + DOUBT)
    }

    /// Whether something of this name is known.
    pub fn has(&self, thing: Thing, name: &str) -> bool {
        match thing {
            Thing::Pod => self.pods.things.contains_key(name),
            Thing::Service => self.services.things.contains_key(name),
            Thing::PodGroup => self.pod_groups.things.contains_key(name),
            Thing::Revision => self.revisions.things.contains_key(name),
        }
    }

    /// We have made this, and the API server answers with it.
    pub fn made(&mut self, thing: Thing, object: Value, key: &Key) {
        // What cannot be read is seen when the watch brings it.
        match thing {
            Thing::Pod => serde_json::from_value(object).map(|it| self.pods.made(it, key)),
            Thing::Service => serde_json::from_value(object).map(|it| self.services.made(it, key)),
            Thing::PodGroup => {
                serde_json::from_value(object).map(|it| self.pod_groups.made(it, key))
            }
            Thing::Revision => {
                serde_json::from_value(object).map(|it| self.revisions.made(it, key))
            }
        }
        .unwrap_or_default();
    }

    /// The pods.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.things.values()
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
        self.pods.things.values().for_each(|pod| seen.pod(pod));
        self.services.things.values().for_each(|service| seen.service(service));
        for group in self.pod_groups.things.values() {
            seen.pod_group(&group.metadata, &group.rest);
        }
        self.revisions.things.values().for_each(|revision| seen.revision(revision));
        seen
    }
}

/// Whether a thing carries the name of this ModelServing.
fn is_of(metadata: &kube::core::ObjectMeta, key: &Key) -> bool {
    serving_of(metadata) == Some(&key.name)
}

/// The name of the ModelServing that a thing carries.
pub fn serving_of(metadata: &kube::core::ObjectMeta) -> Option<&String> {
    metadata.labels.as_ref()?.get(naming::NAME)
}
