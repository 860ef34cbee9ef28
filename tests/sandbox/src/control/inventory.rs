//! Every resource that the server has, found by discovery, with a metadata cache of each.
//!
//! New CustomResourceDefinitions are noticed through their watch, everything else by looking again
//! from time to time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tracing::debug;

use super::cache::Cache;
use super::json;
use super::kind::{DEFINITIONS, Kind};
use super::rest::Rest;

/// One resource and what can be done with it.
#[derive(Debug, Clone)]
pub struct Resource {
    /// The resource that is listed.
    pub kind: Kind,
    /// Whether it can be listed and watched.
    pub watched: bool,
    /// Whether its objects can be deleted one by one.
    pub deletable: bool,
    /// Whether a collection can be deleted at once.
    pub collection: bool,
}

type Found = Box<dyn Fn(&Arc<Cache>) + Send + Sync>;

/// All resources that the server has, kept up to date.
pub struct Inventory {
    rest: Rest,
    resources: RwLock<Arc<Vec<Resource>>>,
    caches: RwLock<BTreeMap<Kind, Arc<Cache>>>,
    listeners: RwLock<Vec<Found>>,
    /// Group and plural of each established definition, by its name.
    promised: RwLock<BTreeMap<String, (String, String)>>,
    look: Notify,
    /// One discovery at a time: an old answer must not replace a newer one.
    looking: tokio::sync::Mutex<()>,
    round: watch::Sender<u64>,
}

const AGAIN: Duration = Duration::from_secs(30);

/// Events come in great numbers and own nothing.
fn is_followed(resource: &Resource) -> bool {
    resource.watched && resource.deletable && resource.kind.plural != "events"
}

/// The resources of one `APIResourceList`.
pub fn resources_of(list: &Value) -> Vec<Resource> {
    let at = json::text(list, "/groupVersion");
    let (group, version) = at.rsplit_once('/').unwrap_or(("", at));
    let mut found = Vec::new();
    for entry in json::list(list, "/resources") {
        let plural = json::text(entry, "/name");
        if plural.contains('/') {
            continue;
        }
        let can = |verb: &str| json::list(entry, "/verbs").iter().any(|v| v == verb);
        found.push(Resource {
            kind: Kind {
                group: group.to_owned().into(),
                version: version.to_owned().into(),
                plural: plural.to_owned().into(),
                kind: json::text(entry, "/kind").to_owned().into(),
                namespaced: json::flag(entry, "/namespaced"),
            },
            watched: can("list") && can("watch"),
            deletable: can("delete"),
            collection: can("deletecollection"),
        });
    }
    found
}

// === impl Inventory ===

impl Inventory {
    /// Starts to follow discovery.
    pub fn start(rest: &Rest) -> Arc<Self> {
        let inventory = Arc::new(Self {
            rest: rest.clone(),
            resources: RwLock::default(),
            caches: RwLock::default(),
            listeners: RwLock::default(),
            promised: RwLock::default(),
            look: Notify::new(),
            looking: tokio::sync::Mutex::default(),
            round: watch::Sender::new(0),
        });
        let to = inventory.clone();
        rest.cache(&DEFINITIONS).on_change(move |before, after| {
            let served = |d: &Arc<Value>| {
                (json::is_true(d, "Established"), d.pointer("/spec/versions").cloned())
            };
            to.promise(before, after);
            if before.map(served) != after.map(served) {
                to.rest.hurry();
                to.look.notify_one();
            }
        });
        let looking = inventory.clone();
        rest.tasks().spawn(async move { looking.look_around().await });
        inventory
    }

    /// Calls `listener` with the cache of each resource, now and when one is found.
    pub fn on_resource(&self, listener: impl Fn(&Arc<Cache>) + Send + Sync + 'static) {
        // One lock over both, so that no cache is told twice or never.
        let mut listeners = self.listeners.write();
        for cache in self.caches.read().values() {
            listener(cache);
        }
        listeners.push(Box::new(listener));
    }

    /// Lets go of all listeners and caches; they hold who holds the inventory.
    pub fn disband(&self) {
        let listeners = std::mem::take(&mut *self.listeners.write());
        let caches = std::mem::take(&mut *self.caches.write());
        drop((listeners, caches));
    }

    /// The resources as last seen.
    pub fn resources(&self) -> Arc<Vec<Resource>> {
        self.resources.read().clone()
    }

    /// The resource of an owner reference: its group may serve it in another version by now.
    pub fn by_reference(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let resources = self.resources.read();
        let mut all = resources.iter().map(|resource| &resource.kind);
        all.find(|have| have.group == group && have.kind == kind).cloned()
    }

    /// The metadata caches of all resources that are followed.
    pub fn caches(&self) -> Vec<Arc<Cache>> {
        self.caches.read().values().cloned().collect()
    }

    /// Returns when all resources are known.
    pub async fn discovered(&self) {
        let mut round = self.round.subscribe();
        // The sender lives as long as `self`.
        drop(round.wait_for(|n| *n > 0).await);
    }

    /// Returns when all resources are known and their caches filled.
    pub async fn ready(&self) {
        self.discovered().await;
        for cache in self.caches() {
            cache.synced().await;
        }
    }

    /// The resources as the server has them now.
    pub async fn look_now(&self) -> Result<Arc<Vec<Resource>>, kube::Error> {
        let _alone = self.looking.lock().await;
        let found = self.discover().await?;
        self.take(found);
        Ok(self.resources())
    }

    fn promise(&self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        let mut promised = self.promised.write();
        if let Some(old) = before {
            promised.remove(meta::name(old));
        }
        let served = |d: &&Arc<Value>| {
            let mut versions = json::list(d, "/spec/versions").iter();
            json::is_true(d, "Established") && versions.any(|v| json::flag(v, "/served"))
        };
        if let Some(new) = after.filter(served) {
            let text = |path: &str| json::text(new, path).to_owned();
            let resource = (text("/spec/group"), text("/spec/names/plural"));
            promised.insert(meta::name(new).to_owned(), resource);
        }
    }

    /// Whether discovery has all that is established; it may lag behind the definitions.
    fn is_complete(&self) -> bool {
        let resources = self.resources();
        self.promised.read().values().all(|(group, plural)| {
            let mut kinds = resources.iter().map(|resource| &resource.kind);
            kinds.any(|kind| kind.group == *group && kind.plural == *plural)
        })
    }

    async fn look_around(&self) {
        let mut wait = Duration::from_millis(20);
        loop {
            match self.look_now().await {
                Ok(_) => {
                    let again = if self.is_complete() {
                        wait = Duration::from_millis(20);
                        AGAIN
                    } else {
                        wait = (wait * 2).min(Duration::from_secs(1));
                        wait
                    };
                    self.round.send_modify(|n| *n += 1);
                    tokio::select! {
                        () = self.look.notified() => {}
                        () = tokio::time::sleep(again) => {}
                    }
                }
                Err(error) => {
                    debug!(%error, "discovery");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(1));
                }
            }
        }
    }

    /// Each resource in the first version that has it, the group's preferred version first.
    async fn discover(&self) -> Result<Vec<Resource>, kube::Error> {
        let mut lists = vec![self.rest.get_path("/api/v1").await?];
        let groups = self.rest.get_path("/apis").await?;
        for group in json::list(&groups, "/groups") {
            let preferred = json::text(group, "/preferredVersion/groupVersion");
            let others = json::list(group, "/versions").iter();
            let others = others.map(|v| json::text(v, "/groupVersion")).filter(|v| *v != preferred);
            for version in std::iter::once(preferred).chain(others).filter(|v| !v.is_empty()) {
                match self.rest.get_path(&format!("/apis/{version}")).await {
                    Ok(list) => lists.push(list),
                    // The group went away between the two requests.
                    Err(error) if super::rest::status_code(&error) == 404 => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let mut seen = HashSet::new();
        let all = lists.iter().flat_map(resources_of);
        Ok(all.filter(|r| seen.insert((r.kind.group.clone(), r.kind.plural.clone()))).collect())
    }

    fn take(&self, found: Vec<Resource>) {
        let served: HashSet<&Kind> = found.iter().map(|resource| &resource.kind).collect();
        let gone: Vec<Kind> =
            self.caches.read().keys().filter(|kind| !served.contains(kind)).cloned().collect();
        for kind in gone {
            self.caches.write().remove(&kind);
            self.rest.forget(&kind);
        }
        for resource in found.iter().filter(|resource| is_followed(resource)) {
            if self.caches.read().contains_key(&resource.kind) {
                continue;
            }
            let cache = self.rest.metadata(&resource.kind);
            let listeners = self.listeners.write();
            self.caches.write().insert(resource.kind.clone(), cache.clone());
            for listener in listeners.iter() {
                listener(&cache);
            }
        }
        *self.resources.write() = Arc::new(found);
    }
}
