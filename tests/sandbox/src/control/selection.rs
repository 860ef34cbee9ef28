//! Which pods a selector picks, kept up to date change by change instead of by looking at all pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use muster_objects::meta;
use muster_objects::select::LabelSelector;
use serde_json::Value;

use super::cache::Key;

/// Pods and the selectors over them, by namespace.
#[derive(Default)]
pub struct Selection {
    spaces: HashMap<String, Space>,
}

#[derive(Default)]
struct Space {
    pods: BTreeMap<String, Arc<Value>>,
    selectors: BTreeMap<String, Picked>,
}

struct Picked {
    selector: LabelSelector,
    pods: BTreeSet<String>,
}

// === impl Selection ===

impl Selection {
    /// Takes in a change of a pod; returns the names of the selectors that pick or picked it.
    pub fn pod_changed(
        &mut self,
        before: Option<&Arc<Value>>,
        after: Option<&Arc<Value>>,
    ) -> Vec<Key> {
        let Some(pod) = after.or(before) else { return Vec::new() };
        let (namespace, name) = (meta::namespace(pod), meta::name(pod));
        let space = self.spaces.entry(namespace.to_owned()).or_default();
        match after {
            Some(pod) => space.pods.insert(name.to_owned(), pod.clone()),
            None => space.pods.remove(name),
        };
        let mut touched = Vec::new();
        for (owner, picked) in &mut space.selectors {
            let is = after.is_some_and(|pod| picked.selector.matches(pod));
            let was = match is {
                true => !picked.pods.insert(name.to_owned()),
                false => picked.pods.remove(name),
            };
            if is || was {
                touched.push((namespace.to_owned(), owner.clone()));
            }
        }
        touched
    }

    /// Sets or drops the selector of this name.
    pub fn select(&mut self, key: &Key, selector: Option<LabelSelector>) {
        let space = self.spaces.entry(key.0.clone()).or_default();
        let Some(selector) = selector else {
            space.selectors.remove(&key.1);
            return;
        };
        if space.selectors.get(&key.1).is_some_and(|have| have.selector == selector) {
            return;
        }
        let picks = space.pods.iter().filter(|(_, pod)| selector.matches(pod));
        let pods = picks.map(|(name, _)| name.clone()).collect();
        space.selectors.insert(key.1.clone(), Picked { selector, pods });
    }

    /// The pods that the selector of this name picks, by name.
    pub fn picked(&self, key: &Key) -> Vec<Arc<Value>> {
        let Some(space) = self.spaces.get(&key.0) else { return Vec::new() };
        let names = space.selectors.get(&key.1).map(|picked| picked.pods.iter());
        names.into_iter().flatten().filter_map(|name| space.pods.get(name)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, app: &str) -> Arc<Value> {
        Arc::new(json!({"metadata": {"namespace": "n", "name": name, "labels": {"app": app}}}))
    }

    #[test]
    fn a_pod_is_picked_while_its_labels_fit_whichever_came_first() {
        let mut selection = Selection::default();
        let key = ("n".to_owned(), "s".to_owned());
        selection.pod_changed(None, Some(&pod("early", "x")));
        selection.select(&key, Some(LabelSelector::from_map(&json!({"app": "x"}))));
        let touched = selection.pod_changed(None, Some(&pod("late", "x")));
        assert_eq!(touched, std::slice::from_ref(&key));
        assert_eq!(selection.picked(&key).len(), 2);
        let touched = selection.pod_changed(Some(&pod("late", "x")), Some(&pod("late", "y")));
        assert_eq!(touched, std::slice::from_ref(&key));
        assert_eq!(selection.picked(&key).len(), 1);
        assert!(selection.pod_changed(None, Some(&pod("other", "y"))).is_empty());
        selection.pod_changed(Some(&pod("early", "x")), None);
        assert!(selection.picked(&key).is_empty());
    }
}
