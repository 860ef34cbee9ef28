//! Which webhooks and policies a write concerns.

use muster_objects::meta;
use muster_objects::policy::PolicyInput;
use muster_objects::policy::matching::{Target, rules_match};
use muster_objects::rbac::selects;
use muster_objects::status::{Resource, Status};
use serde_json::Value;

use super::{Admission, Attempt, Operation, review};

/// A webhook of a configuration, as the store has it.
pub(super) struct Hook<'a> {
    /// Uid and revision of the configuration, and the place of the webhook in it.
    pub(super) key: (&'a str, u64, usize),
    pub(super) webhook: &'a Value,
}

impl Attempt<'_> {
    /// The write as rules see it, in one version of its resource.
    pub(super) fn target<'t>(&'t self, operation: &'t str, version: &'t str) -> Target<'t> {
        Target {
            operation,
            group: self.resource.group,
            version,
            resource: self.resource.resource,
            subresource: self.subresource,
            name: self.name,
            namespaced: !self.selected_namespace().is_empty(),
        }
    }

    /// Whether a selector selects the object, before or after the write.
    pub(super) fn object_selected(&self, selector: &Value) -> bool {
        is_empty(selector)
            || self.object.as_ref().is_some_and(|object| selects(selector, object))
            || self.old.is_some_and(|old| selects(selector, old))
    }
}

impl Admission {
    /// The version in which a webhook wants to see this write; none if it does not.
    pub(super) fn wanted_version(
        &self,
        hook: &Hook<'_>,
        attempt: &Attempt<'_>,
    ) -> Result<Option<String>, Status> {
        let webhook = hook.webhook;
        let in_namespace = self.namespace_selected(&webhook["namespaceSelector"], attempt);
        if matches!(in_namespace, Ok(false)) || !attempt.object_selected(&webhook["objectSelector"])
        {
            return Ok(None);
        }
        let exact = webhook["matchPolicy"] == "Exact";
        let version = self
            .versions(attempt, exact)
            .into_iter()
            .find(|v| rules_match(&webhook["rules"], &attempt.target(&operation(attempt), v)));
        let Some(version) = version else { return Ok(None) };
        in_namespace?;
        Ok(self.conditions_hold(hook, attempt, &version)?.then_some(version))
    }

    /// The version of the request, then the others if they count as well.
    pub(super) fn versions(&self, attempt: &Attempt<'_>, exact: bool) -> Vec<String> {
        let own = attempt.resource.version.to_owned();
        let mut versions = vec![own.clone()];
        if !exact {
            let all = self.kinds.versions(attempt.resource.group, attempt.resource.resource);
            versions.extend(all.into_iter().filter(|version| *version != own));
        }
        versions
    }

    /// Whether a selector selects the namespace of the write. Writes outside of namespaces always count.
    pub(super) fn namespace_selected(
        &self,
        selector: &Value,
        attempt: &Attempt<'_>,
    ) -> Result<bool, Status> {
        let is_namespace = attempt.resource.resource == "namespaces";
        if is_empty(selector) || (attempt.namespace.is_empty() && !is_namespace) {
            return Ok(true);
        }
        let written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if let (true, Some(object)) =
            (is_namespace && attempt.subresource.is_empty() && written, &attempt.object)
        {
            return Ok(selects(selector, object));
        }
        let name = attempt.selected_namespace();
        match self.store.get("namespaces", "", name) {
            Some(namespace) => Ok(selects(selector, &namespace.value)),
            None => Err(Status::not_found(Resource { group: "", plural: "namespaces" }, name)),
        }
    }

    fn conditions_hold(
        &self,
        hook: &Hook<'_>,
        attempt: &Attempt<'_>,
        version: &str,
    ) -> Result<bool, Status> {
        let conditions = &hook.webhook["matchConditions"];
        if conditions.as_array().is_none_or(Vec::is_empty) {
            return Ok(true);
        }
        let object = review::stamped(attempt, attempt.object.as_ref(), version);
        let old = review::stamped(attempt, attempt.old, version);
        let request = review::request(attempt, version);
        let namespace = self.namespace_object(attempt);
        let input = PolicyInput {
            object: object.as_ref(),
            old_object: old.as_ref(),
            request: &request,
            params: None,
            namespace_object: namespace.as_ref(),
        };
        let compiled = self.policies.conditions(hook.key, conditions);
        match compiled.and_then(|compiled| compiled.hold(&input)) {
            Ok(holds) => Ok(holds),
            Err(_) if hook.webhook["failurePolicy"] == "Ignore" => Ok(false),
            Err(why) => Err(Status::forbidden(attempt.group_resource(), attempt.name, &why)),
        }
    }

    /// The Namespace of the write, as expressions see it.
    pub(super) fn namespace_object(&self, attempt: &Attempt<'_>) -> Option<Value> {
        if attempt.is_namespace() || attempt.namespace.is_empty() {
            return None;
        }
        let stored = self.store.get("namespaces", "", attempt.namespace)?;
        let mut value = stored.value.clone();
        let object = meta::as_map(&mut value);
        object.insert("apiVersion".into(), "v1".into());
        object.insert("kind".into(), "Namespace".into());
        Some(value)
    }
}

fn operation(attempt: &Attempt<'_>) -> String {
    attempt.operation.to_string()
}

/// Whether a selector selects everything.
fn is_empty(selector: &Value) -> bool {
    let none = |field: &str| match &selector[field] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    none("matchLabels") && none("matchExpressions")
}
