//! The two shapes that a ModelServing is written in, and how an object of either is read.
//!
//! ```text
//!   workload.serving.volcano.sh/v1alpha1  groups of roles of entry pods and workers ─────────────▶ ModelServing
//!   workload.kthena.io/v1alpha1           a model, roles of pods (the short shape) ────▶ translate ──▶ ModelServing
//! ```
//!
//! What cannot be read is a value too, with the field at which reading ended: people write these objects by hand.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{self, ModelServing, PodTemplate};
use crate::short::{self, ShortServing};
use crate::validate;
use muster_kube::FieldError;

/// Which of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// `workload.serving.volcano.sh/v1alpha1`.
    #[default]
    Kthena,
    /// `workload.kthena.io/v1alpha1`.
    Short,
}

/// An object of either shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Serving {
    /// Of Kthena's.
    Kthena(ModelServing),
    /// An object of the short shape.
    Short(ShortServing),
}

/// An object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object} cannot be read: {field}: {why}")]
pub struct Unreadable {
    /// The object, as people call it.
    pub object: String,
    /// Where reading ended.
    pub field: String,
    /// Why.
    pub why: String,
}

// === impl Shape ===

impl Shape {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Kthena, Self::Short];

    /// The shape behind an `apiVersion`.
    pub fn of(api_version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.api_version() == api_version)
    }

    /// Its API group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Kthena => api::GROUP,
            Self::Short => short::GROUP,
        }
    }

    /// Its `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Kthena => "workload.serving.volcano.sh/v1alpha1",
            Self::Short => "workload.kthena.io/v1alpha1",
        }
    }
}

// === impl Serving ===

impl Serving {
    /// Reads an object; its `apiVersion` says of which shape it is.
    pub fn read(raw: &Value) -> Result<Self, Unreadable> {
        let wrong = |field: &str, why: String| Unreadable::new(raw, field, why);
        let word = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default();
        if !raw.is_object() {
            return Err(wrong("the document", "this is no object".to_owned()));
        }
        if word("kind") != api::KIND {
            return Err(wrong("kind", format!("use {}", api::KIND)));
        }
        match Shape::of(word("apiVersion")) {
            Some(Shape::Kthena) => read_kthena(raw).map(Self::Kthena),
            Some(Shape::Short) => read_short(raw).map(Self::Short),
            None => {
                let [first, second] = Shape::ALL.map(Shape::api_version);
                Err(wrong("apiVersion", format!("use {first} or {second}")))
            }
        }
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Kthena(_) => Shape::Kthena,
            Self::Short(_) => Shape::Short,
        }
    }

    /// Its name, labels and annotations.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Kthena(serving) => &serving.metadata,
            Self::Short(serving) => &serving.metadata,
        }
    }

    /// What is wrong with it.
    pub fn validate(&self) -> Vec<FieldError> {
        match self {
            Self::Kthena(serving) => validate::validate(serving),
            Self::Short(serving) => short::validate(serving),
        }
    }

    /// The one form that the controller works on.
    pub fn into_model_serving(self) -> ModelServing {
        match self {
            Self::Kthena(serving) => serving,
            Self::Short(serving) => short::translate(&serving),
        }
    }
}

// === impl Unreadable ===

impl Unreadable {
    fn new(raw: &Value, field: &str, why: impl Into<String>) -> Self {
        Self { object: called(raw), field: field.to_owned(), why: why.into() }
    }
}

/// Reads an object of Kthena's shape, whatever its `apiVersion`.
pub fn read_kthena(raw: &Value) -> Result<ModelServing, Unreadable> {
    let serving: ModelServing = read(raw)?;
    for (index, role) in serving.spec.template.roles.iter().enumerate() {
        let at = |template: &str| format!("spec.template.roles[{index}].{template}.spec");
        pod(raw, &at("entryTemplate"), &role.entry_template)?;
        if let Some(template) = &role.worker_template {
            pod(raw, &at("workerTemplate"), template)?;
        }
    }
    Ok(serving)
}

/// Reads an object of the short shape, whatever its `apiVersion`.
pub fn read_short(raw: &Value) -> Result<ShortServing, Unreadable> {
    let serving: ShortServing = read(raw)?;
    for (index, role) in serving.spec.roles.iter().enumerate() {
        pod(raw, &format!("spec.roles[{index}].template.spec"), &role.template)?;
    }
    Ok(serving)
}

pub(crate) fn read<T: DeserializeOwned>(raw: &Value) -> Result<T, Unreadable> {
    serde_path_to_error::deserialize(raw)
        .map_err(|error| Unreadable::new(raw, &error.path().to_string(), error.inner().to_string()))
}

/// Pod specs stay JSON, but what is looked at in them must be of its type.
pub(crate) fn pod(raw: &Value, at: &str, template: &PodTemplate) -> Result<(), Unreadable> {
    for list in ["initContainers", "containers"] {
        let containers = match template.spec.get(list) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(containers)) => containers,
            Some(_) => return Err(Unreadable::new(raw, &format!("{at}.{list}"), "use a list")),
        };
        for (index, container) in containers.iter().enumerate() {
            let at = format!("{at}.{list}[{index}]");
            let Some(container) = container.as_object() else {
                return Err(Unreadable::new(raw, &at, "use an object"));
            };
            for key in ["name", "image"] {
                let value = container.get(key).unwrap_or(&Value::Null);
                if !value.is_null() && !value.is_string() {
                    return Err(Unreadable::new(raw, &format!("{at}.{key}"), "use a text"));
                }
            }
        }
    }
    Ok(())
}

/// `ModelServing ns/name`, as far as that is known.
fn called(raw: &Value) -> String {
    let word = |key: &str| raw["metadata"][key].as_str().filter(|text| !text.is_empty());
    let kind = raw["kind"].as_str().filter(|kind| !kind.is_empty()).unwrap_or("object");
    match (word("namespace"), word("name")) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        (_, None) => format!("{kind} without a name"),
    }
}

#[cfg(test)]
mod tests;
