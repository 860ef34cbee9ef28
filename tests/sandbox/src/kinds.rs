//! Which resources the server knows: the built-in table, and what CustomResourceDefinitions add.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_objects::schema::Schema;
use muster_objects::shape::Shape;
use muster_objects::status::Resource;
use parking_lot::RwLock;

mod builtin;
mod custom;

pub use custom::from_crd;

/// One version of one resource, as it is served.
#[derive(Debug)]
pub struct Kind {
    /// API group, empty for core.
    pub group: String,
    /// Version, e.g. `v1`.
    pub version: String,
    /// The kind as manifests write it.
    pub kind: String,
    /// Kind of lists.
    pub list_kind: String,
    /// Plural name, as in the route.
    pub plural: String,
    /// The singular, as kubectl writes it.
    pub singular: String,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Categories, e.g. `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Key of the store's table; versions of one resource share it.
    pub resource: String,
    /// Whether there is a `/status`.
    pub status: bool,
    /// Where `/scale` reads and writes, if there is one.
    pub scale: Option<Scale>,
    /// A question answered at once and never stored (TokenReview and the like).
    pub review: bool,
    /// How values merge under server-side apply.
    pub shape: Shape,
    /// What a CustomResourceDefinition says beyond that.
    pub custom: Option<Custom>,
}

/// JSON paths of the scale subresource, e.g. `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Path of the wanted number of replicas.
    pub spec_replicas: String,
    /// Path of the present number of replicas.
    pub status_replicas: String,
    /// Serialised label selector, if any.
    pub selector: Option<String>,
}

/// The parts of a CustomResourceDefinition that requests need.
#[derive(Debug)]
pub struct Custom {
    /// Pruning, defaults, validation.
    pub schema: Schema,
    /// The same as the definition writes it.
    pub openapi: serde_json::Value,
    /// Columns for `kubectl get`.
    pub columns: Vec<Column>,
    /// Fields that field selectors may name, besides name and namespace.
    pub selectable: Vec<String>,
    /// The store's revision when this schema came: older objects lack its defaults.
    pub since: u64,
    /// What clients of this version are warned of.
    pub deprecation: Option<String>,
    /// Whether the controller of this kind runs here, so that what its webhooks do is done here too.
    pub hosted: bool,
}

/// One printer column.
#[derive(Debug, Clone)]
pub struct Column {
    /// The column's heading.
    pub name: String,
    /// `string`, `integer`, `date`, …
    pub type_: String,
    /// Format, often empty.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i64,
    /// Where the value stands.
    pub json_path: String,
}

/// Every kind that is served now. Readers take an [`Arc`] of the whole, so that a CRD that comes or goes
/// never changes a request half way.
#[derive(Debug, Default)]
pub struct Kinds(RwLock<Arc<Registry>>);

/// A fixed view of the kinds.
#[derive(Debug, Default, Clone)]
pub struct Registry {
    routes: HashMap<(String, String, String), Arc<Kind>>,
    /// Group → versions, in order of preference.
    groups: BTreeMap<String, Vec<String>>,
}

// === impl Kind ===

impl Kind {
    /// `group/version`, or the version alone for core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// For error messages.
    pub fn name(&self) -> Resource<'_> {
        Resource { group: &self.group, plural: &self.plural }
    }

    /// The start of a serialised object: its type, up to where the stored fields begin.
    pub fn opening(&self) -> String {
        format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", self.kind, self.api_version())
    }

    /// Whether this is the built-in `group`/`kind`.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.custom.is_none() && self.group == group && self.kind == kind
    }

    /// Whether this serves the newer view of events.
    pub fn is_new_event(&self) -> bool {
        self.is("events.k8s.io", "Event")
    }
}

// === impl Kinds ===

impl Kinds {
    /// The built-in kinds.
    pub fn builtin() -> Self {
        let mut registry = Registry::default();
        builtin::all().into_iter().for_each(|kind| registry.add(kind));
        Self(RwLock::new(Arc::new(registry)))
    }

    /// The kinds of this moment.
    pub fn now(&self) -> Arc<Registry> {
        self.0.read().clone()
    }

    /// Serves these versions of a custom resource instead of those it had.
    pub fn replace(&self, group: &str, plural: &str, kinds: Vec<Kind>) {
        let mut guard = self.0.write();
        let mut next = Registry::clone(&guard);
        next.remove(group, plural);
        kinds.into_iter().for_each(|kind| next.add(kind));
        *guard = Arc::new(next);
    }
}

// === impl Registry ===

impl Registry {
    fn add(&mut self, kind: Kind) {
        let versions = self.groups.entry(kind.group.clone()).or_default();
        if !versions.contains(&kind.version) {
            versions.push(kind.version.clone());
            versions.sort_by_key(|version| std::cmp::Reverse(custom::version_order(version)));
        }
        let route = (kind.group.clone(), kind.version.clone(), kind.plural.clone());
        self.routes.insert(route, Arc::new(kind));
    }

    fn remove(&mut self, group: &str, plural: &str) {
        self.routes.retain(|(g, _, p), _| !(g == group && p == plural));
        let alive: Vec<String> =
            self.routes.keys().filter(|(g, ..)| g == group).map(|(_, v, _)| v.clone()).collect();
        if let Some(versions) = self.groups.get_mut(group) {
            versions.retain(|version| alive.contains(version));
            if versions.is_empty() {
                self.groups.remove(group);
            }
        }
    }

    /// The kind behind a route.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.routes.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    /// The kind of an object, by group and CamelCase name, in any version (the preferred first).
    pub fn find(&self, group: &str, kind: &str) -> Option<Arc<Kind>> {
        let versions = self.groups.get(group)?;
        versions.iter().find_map(|version| {
            let of = |k: &&Arc<Kind>| k.group == group && k.version == *version && k.kind == kind;
            self.routes.values().find(of).cloned()
        })
    }

    /// Named groups (not core) with their versions, the preferred first.
    pub fn groups(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        self.groups.iter().filter(|(group, _)| !group.is_empty())
    }

    /// Whether there is anything below this group and version. Below a built-in group every version
    /// leads somewhere, if only to a refusal; below a custom one only those that are served do.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        let Some(versions) = self.groups.get(group) else { return false };
        let custom = self.routes.values().all(|k| k.group != group || k.custom.is_some());
        !custom || versions.iter().any(|v| v == version)
    }

    /// All kinds of one group and version, by plural.
    pub fn of(&self, group: &str, version: &str) -> Vec<Arc<Kind>> {
        let mut kinds: Vec<_> = self
            .routes
            .values()
            .filter(|k| k.group == group && k.version == version)
            .cloned()
            .collect();
        kinds.sort_by(|a, b| a.plural.cmp(&b.plural));
        kinds
    }

    /// All kinds that are served.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.routes.values()
    }
}

impl crate::admit::Kinds for Kinds {
    fn find(&self, api_version: &str, kind: &str) -> Option<crate::admit::KnownKind> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let found = self.now().find(group, kind)?;
        let namespaced = found.namespaced;
        Some(crate::admit::KnownKind { resource: found.resource.clone(), namespaced })
    }

    fn versions(&self, group: &str, resource: &str) -> Vec<String> {
        let now = self.now();
        let served = |version: &&String| now.get(group, version, resource).is_some();
        now.groups.get(group).into_iter().flatten().filter(served).cloned().collect()
    }
}
