//! Controllers, not merged yet.
use crate::clock::Clock;
use muster_objects::status::FieldError;
use serde_json::Value;
/// Which controllers run.
#[derive(Debug, Default, Clone)]
pub struct Which;
/// Controllers.
#[derive(Debug)]
pub struct Controllers;
impl Controllers {
    /// Starts.
    pub fn start(_: kube::Client, _: Clock, _: Which) -> Self { Self }
    /// Stops.
    pub async fn stop(self) {}
}
/// CRDs.
pub fn crds(_: &Which) -> Vec<Value> { Vec::new() }
/// Defaults.
pub fn default(_: &str, _: &str, _: &mut Value) {}
/// Validates.
pub fn validate_create(_: &str, _: &str, _: &Value) -> Vec<FieldError> { Vec::new() }
/// Validates.
pub fn validate_update(_: &str, _: &str, _: &Value, _: &Value) -> Vec<FieldError> { Vec::new() }
