//! What can be asked about ModelServings: for the status page.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use super::Key;

/// How a ModelServing stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServingStatus {
    /// How it is written.
    pub api_version: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Serving groups that are wanted.
    pub groups: usize,
    /// Those that are ready.
    pub ready_groups: usize,
    /// Pods that are there and are not on their way out.
    pub pods: usize,
    /// Rank groups among them.
    pub rank_groups: usize,
    /// Those that have their table.
    pub tables: usize,
    /// What somebody should know, for a person.
    pub trouble: Option<String>,
}

/// All ModelServings. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct StatusView(Arc<Mutex<BTreeMap<Key, Arc<ServingStatus>>>>);

// === impl ServingStatus ===

impl ServingStatus {
    /// Of one of which nothing is known yet.
    pub fn new(key: &Key) -> Self {
        Self {
            api_version: key.shape.api_version(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            ..Self::default()
        }
    }

    /// Whether all of it is there.
    pub fn complete(&self) -> bool {
        self.ready_groups == self.groups && self.tables == self.rank_groups
    }
}

// === impl StatusView ===

impl StatusView {
    /// All of them: by namespace, name, shape.
    pub fn all(&self) -> Vec<Arc<ServingStatus>> {
        let mut all: Vec<Arc<ServingStatus>> = self.0.lock().values().cloned().collect();
        all.sort_by(|one, other| {
            (&one.namespace, &one.name, one.api_version).cmp(&(
                &other.namespace,
                &other.name,
                other.api_version,
            ))
        });
        all
    }

    pub(super) fn set(&self, key: &Key, status: &ServingStatus) {
        let mut all = self.0.lock();
        if all.get(key).is_none_or(|known| **known != *status) {
            all.insert(key.clone(), Arc::new(status.clone()));
        }
    }

    pub(super) fn remove(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Forgets all of them: another coordinator knows better.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_modelserving::shape::Shape;

    #[test]
    fn they_are_shown_by_namespace_and_name_until_they_are_gone() {
        let shown = StatusView::default();
        let key = |shape, name: &str| Key { shape, namespace: "n".into(), name: name.into() };
        let keys = [key(Shape::Kthena, "b"), key(Shape::Short, "a"), key(Shape::Kthena, "a")];
        keys.iter().for_each(|key| shown.set(key, &ServingStatus::new(key)));
        let names = || -> Vec<(String, &'static str)> {
            shown.all().iter().map(|one| (one.name.clone(), one.api_version)).collect()
        };
        let (kthena, seed) = (Shape::Kthena.api_version(), Shape::Short.api_version());
        assert_eq!(names(), [("a".into(), seed), ("a".into(), kthena), ("b".into(), kthena)]);
        shown.remove(&keys[1]);
        assert_eq!(names(), [("a".into(), kthena), ("b".into(), kthena)]);
        shown.clear();
        assert!(shown.all().is_empty());
    }
}
