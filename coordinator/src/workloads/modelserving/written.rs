//! The kinds as the API server hands them out. Specs stay JSON until one object is looked at: one that cannot be read
//! must not hide the others.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::core::ObjectMeta;
use muster_api::kind;
use muster_api::kind::RawObject;
use muster_modelserving::api::{self, ModelServing};
use muster_modelserving::seen::PodGroupApi;
use muster_modelserving::shape::{self, Shape, Unreadable};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The definitions that the controller knows of.
pub mod definition {
    /// ModelServings as Kthena's users write them.
    pub const KTHENA: &str = "modelservings.workload.serving.volcano.sh";
    /// ModelServings in the short form.
    pub const SHORT: &str = "modelservings.workload.kthena.io";
    /// PodGroups.
    pub const POD_GROUP: &str = "podgroups.scheduling.volcano.sh";
}

/// All of an object but its kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Body {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The rest.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A ModelServing as Kthena's users write it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KthenaServing(pub Body);

/// A ModelServing in the short form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShortServing(pub Body);

/// A PodGroup.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PodGroup {
    /// Name, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The rest of it, with `spec`.
    #[serde(flatten)]
    pub rest: Value,
}

/// A ModelServing of either shape.
#[derive(Clone, Debug)]
pub enum WatchedServing {
    /// Kthena's.
    Kthena(Arc<KthenaServing>),
    /// The short form.
    Short(Arc<ShortServing>),
}

kind!(
    KthenaServing,
    NamespaceResourceScope,
    "ModelServing",
    api::GROUP,
    "v1alpha1",
    "modelservings",
    0.metadata
);
kind!(
    ShortServing,
    NamespaceResourceScope,
    "ModelServing",
    muster_modelserving::short::GROUP,
    "v1alpha1",
    "modelservings",
    0.metadata
);
kind!(
    PodGroup,
    NamespaceResourceScope,
    "PodGroup",
    "scheduling.volcano.sh",
    "v1beta1",
    "podgroups"
);

// === impl KthenaServing ===

impl RawObject for KthenaServing {
    fn object(&self) -> Value {
        self.0.object(Shape::Kthena)
    }
}

// === impl Body ===

impl Body {
    /// All of the object, with its kind.
    fn object(&self, shape: Shape) -> Value {
        let mut object = serde_json::to_value(self).unwrap_or_default();
        if let Some(object) = object.as_object_mut() {
            object.insert("kind".to_owned(), api::KIND.into());
            object.insert("apiVersion".to_owned(), shape.api_version().into());
        }
        object
    }
}

// === impl WatchedServing ===

impl WatchedServing {
    fn body(&self) -> &Body {
        match self {
            Self::Kthena(serving) => &serving.0,
            Self::Short(serving) => &serving.0,
        }
    }

    fn shape(&self) -> Shape {
        match self {
            Self::Kthena(_) => Shape::Kthena,
            Self::Short(_) => Shape::Short,
        }
    }

    /// Name, labels, annotations.
    pub fn metadata(&self) -> &ObjectMeta {
        &self.body().metadata
    }

    /// Its version.
    pub fn version(&self) -> &str {
        self.metadata().resource_version.as_deref().unwrap_or_default()
    }

    /// The one form that is worked on.
    pub fn read(&self) -> Result<ModelServing, Unreadable> {
        let object = self.body().object(self.shape());
        shape::Serving::read(&object).map(shape::Serving::into_model_serving)
    }

    /// Whom events are about.
    pub fn reference(&self) -> ObjectReference {
        let metadata = self.metadata();
        ObjectReference {
            api_version: Some(self.shape().api_version().to_owned()),
            kind: Some(api::KIND.to_owned()),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }
}

/// What a cluster with this definition knows of PodGroups.
pub fn pod_group_api(definition: &CustomResourceDefinition) -> PodGroupApi {
    let properties = |schema: &JSONSchemaProps, key: &str| {
        schema.properties.as_ref().and_then(|all| all.get(key)).cloned()
    };
    let has = definition.spec.versions.iter().any(|version| {
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let spec = schema.and_then(|schema| properties(schema, "spec"));
        spec.is_some_and(|spec| properties(&spec, "subGroupPolicy").is_some())
    });
    if has { PodGroupApi::SubGroups } else { PodGroupApi::Plain }
}
