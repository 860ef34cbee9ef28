//! Names: of what is made for a ModelServing, and of the labels by which it is found again.
//!
//! The kind has two shapes. Kthena's has groups, instances with workers, and services; the short one has one group that
//! nobody names, and one pod per instance.

use serde_json::{Value, json};

use crate::api::{self, ModelServing};
pub use crate::shape::Shape;

/// Whose a thing is.
pub const NAME: &str = "modelserving.volcano.sh/name";
/// Of which serving group.
pub const GROUP: &str = "modelserving.volcano.sh/group-name";
/// Of which role.
pub const ROLE: &str = "modelserving.volcano.sh/role";
/// Of which instance of the role.
pub const ROLE_ID: &str = "modelserving.volcano.sh/role-id";
/// Says `true` on the first pod of an instance; the others lack it.
pub const ENTRY: &str = "modelserving.volcano.sh/entry";
/// Made from which roles.
pub const REVISION: &str = "modelserving.volcano.sh/revision";
/// Made from which role.
pub const ROLE_HASH: &str = "modelserving.volcano.sh/role-template-hash";
/// A number on a pod: the lower, the sooner it goes when there are too many.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// On a pod: its PodGroup.
pub const POD_GROUP: &str = "scheduling.k8s.io/group-name";
/// On a pod: its part in the PodGroup.
pub const TASK: &str = "volcano.sh/task-spec";
/// The scheduler that knows PodGroups.
pub const VOLCANO: &str = "volcano";

// === impl Shape ===

impl Shape {
    /// A pod of an instance: 0 is the entry, workers count from 1.
    pub fn pod(self, serving: &str, group: &str, role_id: &str, index: i32) -> String {
        match self {
            Shape::Kthena => format!("{group}-{role_id}-{index}"),
            Shape::Short => format!("{serving}-{role_id}"),
        }
    }

    /// The service of an instance, if it is to have one.
    pub fn service(self, group: &str, role_id: &str) -> Option<String> {
        match self {
            Shape::Kthena => Some(format!("{group}-{role_id}-0")),
            Shape::Short => None,
        }
    }

    /// What makes a thing go when its ModelServing goes.
    pub fn owner(self, serving: &ModelServing) -> Value {
        json!({
            "apiVersion": self.api_version(),
            "kind": api::KIND,
            "name": name(serving),
            "uid": uid(serving),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }
}

/// A serving group.
pub fn group(serving: &str, ordinal: i64) -> String {
    format!("{serving}-{ordinal}")
}

/// An instance of a role.
pub fn role_id(role: &str, ordinal: i64) -> String {
    format!("{role}-{ordinal}")
}

/// The ControllerRevision that keeps the roles of a revision.
pub fn revision(serving: &str, revision: &str) -> String {
    format!("{serving}-{revision}")
}

/// Splits a name at its trailing number: `-1` if there is none that fits in 32 bits.
pub fn parent_and_ordinal(name: &str) -> (&str, i64) {
    let Some((parent, digits)) = name.rsplit_once('-') else { return ("", -1) };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return ("", -1);
    }
    (parent, digits.parse::<i32>().map_or(-1, i64::from))
}

/// The trailing number of a name, or `-1`.
pub fn ordinal(name: &str) -> i64 {
    parent_and_ordinal(name).1
}

/// The name of a ModelServing.
pub fn name(serving: &ModelServing) -> &str {
    serving.metadata.name.as_deref().unwrap_or_default()
}

/// Its namespace.
pub fn namespace(serving: &ModelServing) -> &str {
    serving.metadata.namespace.as_deref().unwrap_or_default()
}

/// Its uid.
pub fn uid(serving: &ModelServing) -> &str {
    serving.metadata.uid.as_deref().unwrap_or_default()
}

/// Selects one pod per serving group, for the scale subresource.
pub fn selector(serving: &ModelServing) -> String {
    let mut selector = format!("{ENTRY}=true,{NAME}={}", name(serving));
    if let Some(role) = serving.spec.template.roles.first() {
        let role = &role.name;
        selector.push_str(&format!(",{ROLE_ID}={role}-0,{ROLE}={role}"));
    }
    selector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinal_is_the_last_number_of_a_name() {
        let split = [("llm-0", ("llm", 0)), ("a-1-2", ("a-1", 2)), ("-5", ("", 5))];
        let none = ["llm", "llm-", "llm-1a", ""];
        for (name, expected) in split {
            assert_eq!(parent_and_ordinal(name), expected, "{name}");
        }
        for name in none {
            assert_eq!(parent_and_ordinal(name), ("", -1), "{name}");
        }
        assert_eq!(parent_and_ordinal("llm-99999999999"), ("llm", -1), "more than 32 bits");
    }

    #[test]
    fn both_shapes_name_their_pods() {
        assert_eq!(Shape::Kthena.pod("llm", "llm-0", "decode-2", 7), "llm-0-decode-2-7");
        assert_eq!(Shape::Short.pod("llm", "llm-0", "decode-2", 0), "llm-decode-2");
        assert_eq!(Shape::Kthena.service("llm-0", "decode-2").unwrap(), "llm-0-decode-2-0");
        assert_eq!(Shape::Short.service("llm-0", "decode-2"), None);
    }
}
