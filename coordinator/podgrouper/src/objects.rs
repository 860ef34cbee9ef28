//! What else there is in the cluster, asked by key.
//!
//! The pass is synchronous. An edge that has not read an object yet answers [`Refusal::Unread`]; the pass ends with
//! the key, the edge reads the object and asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::names;
use crate::object::Object;

/// What names an object in the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The API version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// Empty for what has none.
    pub namespace: String,
    /// Empty means all of them.
    pub name: String,
}

/// Why there is no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not there.
    Absent,
    /// It may not be read.
    Forbidden,
    /// It has not been read yet.
    Unread,
}

/// What there is in the cluster.
pub trait Objects {
    /// The object that the key names.
    fn get(&self, key: &Key) -> Result<Arc<Object>, Refusal>;
    /// The pods of a namespace that have all these labels, in the order of their names.
    fn pods(&self, namespace: &str, labels: &[(&str, &str)]) -> Result<Vec<Arc<Object>>, Refusal>;
    /// The PodGroups of a namespace whose name begins like this, in the order of their names.
    fn pod_groups(&self, namespace: &str, prefix: &str) -> Result<Vec<Arc<Object>>, Refusal>;
}

/// Objects that were given, and no others.
#[derive(Clone, Debug, Default)]
pub struct Given {
    objects: BTreeMap<Key, Arc<Object>>,
    forbidden: BTreeSet<(String, String)>,
}

// === impl Key ===

impl Key {
    /// An object of a namespace.
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Key of a PodGroup.
    pub fn pod_group(namespace: &str, name: &str) -> Self {
        Self::new(names::POD_GROUP_API, names::POD_GROUP, namespace, name)
    }

    /// The key of an object.
    pub fn of(object: &Object) -> Self {
        Self::new(object.api_version(), object.kind(), object.namespace(), object.name())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{} {}", self.kind, self.name),
            false => write!(f, "{} {}/{}", self.kind, self.namespace, self.name),
        }
    }
}

// === impl Given ===

impl Given {
    /// A source that has these objects.
    pub fn new(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut given = Self::default();
        objects.into_iter().for_each(|object| given.put(object));
        given
    }

    /// One more, or another one in its place.
    pub fn put(&mut self, object: Object) {
        self.objects.insert(Key::of(&object), Arc::new(object));
    }

    /// Objects of this kind may not be read.
    pub fn forbid(&mut self, group: &str, kind: &str) {
        self.forbidden.insert((group.to_owned(), kind.to_owned()));
    }

    fn of_kind(
        &self,
        api: &str,
        kind: &str,
        namespace: &str,
    ) -> impl Iterator<Item = &Arc<Object>> {
        let first = Key::new(api, kind, namespace, "");
        let among = move |key: &Key| {
            (&key.api_version, &key.kind, &key.namespace)
                == (&first.api_version, &first.kind, &first.namespace)
        };
        let from = Key::new(api, kind, namespace, "");
        self.objects.range(from..).take_while(move |(key, _)| among(key)).map(|(_, object)| object)
    }
}

impl Objects for Given {
    fn get(&self, key: &Key) -> Result<Arc<Object>, Refusal> {
        let group = key.api_version.split_once('/').map_or("", |(group, _)| group);
        if self.forbidden.contains(&(group.to_owned(), key.kind.clone())) {
            return Err(Refusal::Forbidden);
        }
        self.objects.get(key).cloned().ok_or(Refusal::Absent)
    }

    fn pods(&self, namespace: &str, labels: &[(&str, &str)]) -> Result<Vec<Arc<Object>>, Refusal> {
        let fits =
            |pod: &&Arc<Object>| labels.iter().all(|(key, value)| pod.label(key) == Some(*value));
        Ok(self.of_kind("v1", "Pod", namespace).filter(fits).cloned().collect())
    }

    fn pod_groups(&self, namespace: &str, prefix: &str) -> Result<Vec<Arc<Object>>, Refusal> {
        let groups = self.of_kind(names::POD_GROUP_API, names::POD_GROUP, namespace);
        Ok(groups.filter(|group| group.name().starts_with(prefix)).cloned().collect())
    }
}
