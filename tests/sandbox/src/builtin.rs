//! The built-in kinds: how the API server reads, defaults, prepares and validates them.
//!
//! Pure functions over JSON. A write runs them in this order:
//!
//! ```text
//!   decode ──▶ default ──▶ (admission) ──▶ prepare_create / _update / _status ──▶ validate_create / _update
//! ```
//!
//! [`decode`] brings an object into the one form in which the others expect it: absent means unset.

use muster_kube::FieldError;
use muster_objects::status::Status;
use serde_json::Value;

mod amount;
mod apps;
mod decode;
mod defaults;
mod events;
mod field;
mod instant;
mod internal;
mod job;
mod metadata;
mod names;
mod numbers;
mod pod;
mod protobuf;
mod service;
mod strategy;
mod traits;
mod types;
mod validate;

#[cfg(test)]
mod tests;

pub use events::{event_from_v1, event_to_v1};
pub use protobuf::from_protobuf;
pub use traits::{
    Propagation, ScalePaths, create_on_update, default_grace_seconds, default_propagation,
    name_rule, namespaced, scale_paths, selectable_fields, unconditional_update,
};

/// What an object's name may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Labels joined by dots: most kinds, and all custom resources.
    Subdomain,
    /// One DNS label: namespaces.
    Label,
    /// One DNS label that starts with a letter: services.
    Label1035,
    /// Anything that fits between two slashes: RBAC.
    PathSegment,
}

/// What the server brings along when it makes an object.
pub struct Prepare<'a> {
    /// The time, as objects carry it.
    pub now: &'a str,
    /// The next free cluster address.
    pub allocate_ip: &'a dyn Fn() -> String,
    /// The next free node port.
    pub allocate_port: &'a dyn Fn() -> u16,
}

/// Reads an object of a built-in kind: drops what the kind does not know (and says which fields, as
/// `unknown field "spec.foo"`), refuses wrong types, leaves out what is empty and brings quantities
/// and times into their canonical form. Other kinds pass unchanged.
pub fn decode(group: &str, kind: &str, value: Value) -> Result<(Value, Vec<String>), Status> {
    decode::decode(group, kind, value)
}

/// Fills in the API's defaults.
pub fn default(group: &str, kind: &str, object: &mut Value) {
    defaults::default(group, kind, object);
}

/// Readies a new object: its status starts afresh, and the server's own fields are filled in.
pub fn prepare_create(group: &str, kind: &str, object: &mut Value, cx: &Prepare<'_>) {
    strategy::prepare_create(group, kind, object, cx);
}

/// Readies a change through the main endpoint: the status stays, the generation counts changes.
pub fn prepare_update(group: &str, kind: &str, new: &mut Value, old: &Value) {
    strategy::prepare_update(group, kind, new, old);
}

/// Readies a change through `/status`: all but the status stays, where the kind says so.
pub fn prepare_status(group: &str, kind: &str, new: &mut Value, old: &Value) {
    strategy::prepare_status(group, kind, new, old);
}

/// Gives a service the addresses and ports that it still needs. [`prepare_create`] does this for a
/// new one; after an update it matters where the type changed.
pub fn allocate(group: &str, kind: &str, object: &mut Value, cx: &Prepare<'_>) {
    if (group, kind) == ("", "Service") {
        service::allocate(object, cx);
    }
}

/// Whether the kind has a `/status` endpoint.
pub fn has_status(group: &str, kind: &str) -> bool {
    strategy::has_status(group, kind)
}

/// What is wrong with a new object, metadata included.
pub fn validate_create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    validate::create(group, kind, object)
}

/// What is wrong with a change through the main endpoint.
pub fn validate_update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    validate::update(group, kind, new, old)
}

/// What is wrong with a change through `/status`.
pub fn validate_status(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    validate::status(group, kind, new, old)
}

/// What is wrong with the metadata of a new object of any kind.
pub fn validate_metadata(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    metadata::validate(object, namespaced, rule)
}

/// What is wrong with changed metadata, for any kind.
pub fn validate_metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    metadata::validate_update(new, old)
}
