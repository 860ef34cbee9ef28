//! Schemas of custom resources: pruning, defaulting and validation as kube-apiserver does them.
//!
//! ```text
//!   CustomResourceDefinition ── crd ──▶ accepted or refused
//!            │ openAPIV3Schema
//!            ▼
//!        Schema::compile ──▶ Node tree ──▶ prune · default · validate (lists, embedded, CEL)
//! ```

pub mod cel;
pub mod crd;
mod default;
mod embedded;
mod format;
mod list;
mod names;
mod node;
mod parse;
pub mod path;
mod pattern;
pub mod print;
mod prune;
mod structural;
mod validate;

#[cfg(test)]
mod tests;

use muster_kube::{FieldError, FieldErrorKind as Kind};
use node::Node;
use serde_json::{Value, json};

/// The compiled schema of one version of one kind. Compile once, share freely.
#[derive(Debug)]
pub struct Schema {
    root: Node,
}

// === impl Schema ===

impl Schema {
    /// Compiles an `openAPIV3Schema`. Errors name fields relative to it.
    pub fn compile(openapi_v3: &Value) -> Result<Schema, Vec<FieldError>> {
        Ok(Schema { root: parse::node(openapi_v3)? })
    }

    /// Drops what the schema does not know and returns the dropped paths, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::resource(&self.root, object)
    }

    /// Fills in defaults; drops nulls that are neither allowed nor defaulted.
    pub fn default(&self, object: &mut Value) {
        default::prune_nulls(&self.root, object);
        default::fill(&self.root, object);
    }

    /// Checks a whole object; `old` is the stored one on updates. Metadata is checked elsewhere.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = validate::check(&self.root, object, old, "");
        self.finish(errors, object, old)
    }

    /// Checks an update through the status subresource: the status by the schema, the rules of all.
    pub fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = match (self.root.properties.get("status"), object.get("status")) {
            (Some(node), Some(status)) => {
                validate::check(node, status, old.and_then(|o| o.get("status")), "status")
            }
            _ => Vec::new(),
        };
        self.finish(errors, object, old)
    }

    /// Embedded resources, lists and rules, in this order.
    fn finish(
        &self,
        mut errors: Vec<FieldError>,
        object: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        errors.extend(embedded::check(&self.root, object, ""));
        if old.is_none_or(|old| list::check(&self.root, old, "").is_empty()) {
            errors.extend(list::check(&self.root, object, ""));
        }
        if !self.root.has_rules {
            return errors;
        }
        if errors.iter().any(|e| blocks_rules(e.kind)) {
            errors.push(print::error(
                Kind::Invalid,
                path::NO_FIELD,
                &json!(null),
                "some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ));
        } else {
            errors.extend(cel::check(&self.root, object, old, ""));
        }
        errors
    }
}

/// Rules are not evaluated on objects of the wrong shape.
fn blocks_rules(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::NotSupported | Kind::Required | Kind::TooLong | Kind::TooMany | Kind::TypeInvalid
    )
}
