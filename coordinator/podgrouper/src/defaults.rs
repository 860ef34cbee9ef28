//! The ConfigMap of priorities by kind: key `types`, a list of kinds with their class and preemptibility.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::object::Object;

/// What a kind gets if nobody says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindDefaults {
    /// Its priority class.
    pub priority: String,
    /// Whether it may be preempted.
    pub preemptibility: String,
}

/// By kind: `Deployment.apps` or `Deployment`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    kinds: BTreeMap<String, KindDefaults>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    type_name: Option<String>,
    group: Option<String>,
    priority_name: Option<String>,
    preemptibility: Option<String>,
}

// === impl Defaults ===

impl Defaults {
    /// Reads the ConfigMap. What cannot be read is as if it were not there.
    pub fn read(config_map: &Object) -> Option<Self> {
        let text = config_map.raw().get("data")?.get("types")?.as_str()?;
        let entries: Option<Vec<Option<Entry>>> = serde_json::from_str(text).ok()?;
        let mut kinds = BTreeMap::new();
        for entry in entries.unwrap_or_default() {
            let entry = entry.unwrap_or_default();
            let group = entry.group.unwrap_or_default();
            let name = kind(&group, &entry.type_name.unwrap_or_default());
            let defaults = KindDefaults {
                priority: entry.priority_name.unwrap_or_default(),
                preemptibility: entry.preemptibility.unwrap_or_default(),
            };
            kinds.insert(name, defaults);
        }
        Some(Self { kinds })
    }

    /// What an object's kind gets.
    pub fn of(&self, object: &Object) -> Option<&KindDefaults> {
        let (group, _) = object.group_and_version();
        let whole = kind(group, object.kind());
        self.kinds.get(&whole).or_else(|| self.kinds.get(object.kind()))
    }
}

fn kind(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}
