//! Objects as they come from the API server: read into the lean form at once, and the rest is forgotten. One that cannot be
//! read is set aside, and the others go on.

use std::borrow::Cow;
use std::fmt::Debug;

use kube::Resource;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use muster_scheduler_state::{Kind, Object};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A kind in its lean form.
pub trait Lean: DeserializeOwned + Clone + Debug + Send + Sync + 'static {
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

    /// Whether its text is needed once more.
    fn wants_text(&self) -> bool {
        false
    }
}

/// An object that was seen.
#[derive(Clone, Debug)]
pub struct Seen<T> {
    metadata: ObjectMeta,
    /// Its lean form, or why there is none.
    pub lean: Result<T, String>,
    /// Its text, if somebody wants it.
    pub text: Option<Box<RawValue>>,
}

/// All that the watch itself needs.
#[derive(Deserialize)]
struct Head {
    metadata: ObjectMeta,
}

impl<'de, T: Lean> Deserialize<'de> for Seen<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Head { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            resource_version: metadata.resource_version,
            uid: metadata.uid,
            ..ObjectMeta::default()
        };
        let lean: Result<T, String> =
            serde_json::from_str(text.get()).map_err(|error| error.to_string());
        let wanted = lean.as_ref().is_ok_and(T::wants_text);
        Ok(Self { metadata, lean, text: wanted.then_some(text) })
    }
}

impl<T: Lean> Resource for Seen<T> {
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
        let event: WatchEvent<Seen<Node>> = serde_json::from_str(line).unwrap();
        let WatchEvent::Added(seen) = event else { panic!("an object") };
        assert_eq!(seen.meta().name.as_deref(), Some("n"));
        assert_eq!(seen.meta().resource_version.as_deref(), Some("7"));
        assert!(seen.lean.unwrap_err().contains("many"));
    }
}
