//! Devices that drivers offer and pods claim (dynamic resource allocation).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    NodeSelector,
    meta::{Meta, or_default},
};

/// A claim of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// Its name and owner.
    pub metadata: Meta,
    /// What it asks for.
    #[serde(deserialize_with = "or_default")]
    pub spec: ClaimSpec,
    /// What it has.
    #[serde(deserialize_with = "or_default")]
    pub status: ClaimStatus,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimSpec {
    /// What the claim asks for.
    #[serde(deserialize_with = "or_default")]
    pub devices: ClaimDevices,
}

/// Devices that a claim asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimDevices {
    /// The requests of the claim.
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<DeviceRequest>,
    /// What must be true of all.
    #[serde(deserialize_with = "or_default")]
    pub constraints: Vec<DeviceConstraint>,
    /// Settings that drivers get.
    #[serde(deserialize_with = "or_default")]
    pub config: Vec<DeviceConfig>,
}

/// Settings that a driver gets with devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceConfig {
    /// `FromClass` or `FromClaim`, once they are given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// For which requests; none is all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
    /// The settings, as they are.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}

/// A request for devices. v1 says it in `exactly`, earlier versions in the request itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    /// The name in its list.
    pub name: String,
    /// The one request, where there are no alternatives.
    pub exactly: Option<DeviceSubRequest>,
    /// Or the first of these that there is.
    #[serde(deserialize_with = "or_default")]
    pub first_available: Vec<DeviceSubRequest>,
    /// Earlier versions: the class.
    pub device_class_name: String,
    /// Earlier versions: which of the class.
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<DeviceSelector>,
    /// Earlier versions: all or a number.
    pub allocation_mode: Option<AllocationMode>,
    /// Earlier versions: the number.
    pub count: Option<i64>,
    /// Earlier versions: to look, not to use.
    pub admin_access: Option<bool>,
}

/// What exactly is asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceSubRequest {
    /// Its name, if it is one of several.
    pub name: String,
    /// Name of the DeviceClass.
    pub device_class_name: String,
    /// Which of the class.
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<DeviceSelector>,
    /// All or a number.
    pub allocation_mode: Option<AllocationMode>,
    /// The number; 1 if it does not say.
    pub count: Option<i64>,
    /// To look, not to use.
    pub admin_access: Option<bool>,
}

/// All or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AllocationMode {
    /// A number of devices.
    #[serde(alias = "")]
    ExactCount,
    /// All that match.
    All,
}

/// Which devices, as an expression.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    /// The selector as a CEL expression.
    pub cel: Option<Expression>,
}

/// An expression in CEL.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Expression {
    /// Text of the expression.
    pub expression: String,
}

/// What must be true of all devices together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceConstraint {
    /// Of which requests; none is all.
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<String>,
    /// This attribute is the same.
    pub match_attribute: Option<String>,
    /// This attribute differs.
    pub distinct_attribute: Option<String>,
}

/// What a claim has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// The devices that the claim has, once allocated.
    pub allocation: Option<Allocation>,
    /// Who uses them.
    #[serde(deserialize_with = "or_default")]
    pub reserved_for: Vec<Consumer>,
}

/// Devices that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    /// The allocated devices.
    #[serde(deserialize_with = "or_default")]
    pub devices: AllocatedDevices,
    /// On which nodes they can be used; none is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
}

/// Which devices were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatedDevices {
    /// One by one.
    #[serde(deserialize_with = "or_default")]
    pub results: Vec<DeviceResult>,
    /// Settings that their drivers get.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<DeviceConfig>,
}

/// A device that was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceResult {
    /// For which request.
    pub request: String,
    /// Driver of the device.
    pub driver: String,
    /// The driver's pool that has the device.
    pub pool: String,
    /// Name of the device in its pool.
    pub device: String,
    /// To look, not to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
}

/// Who uses a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Consumer {
    /// The consumer's resource, `pods` for pods.
    pub resource: String,
    /// The name in its list.
    pub name: String,
    /// The consumer's `metadata.uid`.
    pub uid: String,
}

// === impl DeviceRequest ===

impl DeviceRequest {
    /// What exactly is asked for, in the words of v1; none if it is a choice.
    pub fn exact(&self) -> Option<DeviceSubRequest> {
        if let Some(exactly) = &self.exactly {
            return Some(exactly.clone());
        }
        (!self.device_class_name.is_empty()).then(|| DeviceSubRequest {
            name: String::new(),
            device_class_name: self.device_class_name.clone(),
            selectors: self.selectors.clone(),
            allocation_mode: self.allocation_mode,
            count: self.count,
            admin_access: self.admin_access,
        })
    }
}
