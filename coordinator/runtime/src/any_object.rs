//! Objects of kinds that are known by name alone, such as those that a plugin declares.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A kind. Copies share it: a cache has one beside each object.
#[derive(Clone, Debug)]
pub struct AnyKind(Arc<ApiResource>);

/// An object of any kind: its metadata, and the rest as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AnyObject {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The rest.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

// === impl AnyKind ===

impl AnyKind {
    /// A kind, and where its objects live.
    pub fn new(resource: ApiResource) -> Self {
        Self(Arc::new(resource))
    }

    /// Where its objects live.
    pub fn resource(&self) -> &ApiResource {
        &self.0
    }
}

impl PartialEq for AnyKind {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for AnyKind {}

impl Hash for AnyKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The objects of one cache are all of one kind.
        self.0.plural.hash(state);
    }
}

// === impl AnyObject ===

impl Resource for AnyObject {
    type DynamicType = AnyKind;
    type Scope = DynamicResourceScope;

    fn kind(kind: &AnyKind) -> Cow<'_, str> {
        kind.0.kind.as_str().into()
    }

    fn group(kind: &AnyKind) -> Cow<'_, str> {
        kind.0.group.as_str().into()
    }

    fn version(kind: &AnyKind) -> Cow<'_, str> {
        kind.0.version.as_str().into()
    }

    fn api_version(kind: &AnyKind) -> Cow<'_, str> {
        kind.0.api_version.as_str().into()
    }

    fn plural(kind: &AnyKind) -> Cow<'_, str> {
        kind.0.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
