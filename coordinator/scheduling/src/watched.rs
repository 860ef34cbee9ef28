//! Objects as they come from the API server: read into the lean form at once, and the rest is forgotten. One that cannot be
//! read is set aside, and the others go on.

use std::borrow::Cow;
use std::fmt::Debug;

use kube::Resource;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use muster_scheduler_state::{Kind, Object};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A kind in its lean form.
pub trait TrimmedKind: DeserializeOwned + Clone + Debug + Send + Sync + 'static {
    /// API group; empty for the core.
    const GROUP: &'static str;
    /// API version.
    const VERSION: &'static str;
    /// Its kind.
    const KIND: &'static str;
    /// Its name in paths.
    const PLURAL: &'static str;
    /// What it is to the scheduler.
    const OF: Kind;
    /// Objects of one page of a listing.
    const PAGE: u32 = 500;

    /// The object, without what nobody reads.
    fn object(self) -> Object;

    /// Whether somebody may need all of the object, by a glance at its text.
    fn may_be_kept(_text: &str) -> bool {
        false
    }

    /// Whether somebody needs all of the object.
    fn is_kept(&self) -> bool {
        false
    }
}

/// An object that was seen.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    metadata: ObjectMeta,
    /// Its lean form, or why there is none.
    pub lean: Result<T, String>,
    /// All of it, if somebody needs it.
    pub whole: Option<Value>,
}

/// All that the watch itself needs.
#[derive(Deserialize)]
struct Head {
    metadata: ObjectMeta,
}

impl<'de, T: TrimmedKind> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        // A text is parsed once: into a value, of which the rest is made, or into the lean form, after a glance at its head.
        let whole = T::may_be_kept(text.get())
            .then(|| serde_json::from_str::<Value>(text.get()).map_err(D::Error::custom))
            .transpose()?;
        let head = match &whole {
            Some(whole) => Head::deserialize(whole),
            None => serde_json::from_str(text.get()),
        };
        let Head { metadata } = head.map_err(D::Error::custom)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            resource_version: metadata.resource_version,
            uid: metadata.uid,
            ..ObjectMeta::default()
        };
        let lean = match &whole {
            Some(whole) => T::deserialize(whole),
            None => serde_json::from_str(text.get()),
        };
        let lean = lean.map_err(|error| error.to_string());
        let is_kept = lean.as_ref().is_ok_and(T::is_kept);
        Ok(Self { metadata, lean, whole: whole.filter(|_| is_kept).map(trimmed) })
    }
}

/// Without what says nothing about where it belongs, and is large.
fn trimmed(mut whole: Value) -> Value {
    if let Some(metadata) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    if let Some(object) = whole.as_object_mut() {
        object.remove("status");
    }
    whole
}

impl<T: TrimmedKind> Resource for Watched<T> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        T::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        T::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        T::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        T::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::WatchEvent;
    use muster_scheduler::input::Node;

    #[test]
    fn an_object_that_cannot_be_read_is_set_aside_and_still_has_its_name() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"7"},
            "status":{"allocatable":{"cpu":"many"}}}}"#;
        let event: WatchEvent<Watched<Node>> = serde_json::from_str(line).unwrap();
        let WatchEvent::Added(seen) = event else { panic!("an object") };
        assert_eq!(seen.meta().name.as_deref(), Some("n"));
        assert_eq!(seen.meta().resource_version.as_deref(), Some("7"));
        assert!(seen.lean.unwrap_err().contains("many"));
    }
}
