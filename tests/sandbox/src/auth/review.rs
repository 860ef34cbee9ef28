//! The kinds that answer questions: TokenReview and the access reviews. Each takes the posted object
//! and gives it back with its status filled in.

use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::rbac::{self, Attributes};
use muster_objects::status::Status;
use serde_json::{Map, Value, json};

use super::token::strings;
use super::{Auth, StoredRoles, User, decide};
use crate::store::Store;

const AUTHENTICATION: &str = "authentication.k8s.io/v1";
const AUTHORIZATION: &str = "authorization.k8s.io/v1";

impl Auth {
    /// The status of a TokenReview. Without audiences, the API's own are meant.
    pub fn review_token(&self, token: &str, audiences: &[String], store: &Store) -> Value {
        let audiences = if audiences.is_empty() { &self.audiences } else { audiences };
        match self.check(token, audiences, store) {
            Ok(valid) => json!({
                "authenticated": true,
                "user": valid.user.to_value(),
                "audiences": valid.audiences,
            }),
            Err(error) => json!({"user": {}, "error": error}),
        }
    }
}

/// Answers a TokenReview.
pub fn token_review(auth: &Auth, mut review: Value, store: &Store) -> Result<Value, Status> {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let status = auth.review_token(token, &strings(&review["spec"]["audiences"]), store);
    stamp(&mut review, AUTHENTICATION, "TokenReview", status);
    Ok(review)
}

/// Answers a SelfSubjectReview, which is what `kubectl auth whoami` posts.
pub fn self_subject_review(mut review: Value, user: &User, now: &str) -> Value {
    meta::edit(&mut review).insert("creationTimestamp".into(), json!(now));
    stamp(&mut review, AUTHENTICATION, "SelfSubjectReview", json!({"userInfo": user.to_value()}));
    review
}

/// Answers a SubjectAccessReview.
pub fn subject_access_review(mut review: Value, store: &Store) -> Result<Value, Status> {
    let mut errors = spec_errors(&review, true);
    errors.extend(metadata_error(&review, &[], "must be empty"));
    refuse(errors)?;
    let status = access(&review["spec"], &subject(&review["spec"]), store);
    stamp(&mut review, AUTHORIZATION, "SubjectAccessReview", status);
    Ok(review)
}

/// Answers a SelfSubjectAccessReview of `user`.
pub fn self_subject_access_review(
    mut review: Value,
    user: &User,
    store: &Store,
) -> Result<Value, Status> {
    let mut errors = spec_errors(&review, false);
    errors.extend(metadata_error(&review, &[], "must be empty"));
    refuse(errors)?;
    let status = access(&review["spec"], user, store);
    stamp(&mut review, AUTHORIZATION, "SelfSubjectAccessReview", status);
    Ok(review)
}

/// Answers a LocalSubjectAccessReview that was posted to `namespace`.
pub fn local_subject_access_review(
    mut review: Value,
    namespace: &str,
    store: &Store,
) -> Result<Value, Status> {
    if meta::namespace(&review).is_empty() {
        meta::edit(&mut review).insert("namespace".into(), json!(namespace));
    }
    let mut errors = spec_errors(&review, true);
    errors.extend(metadata_error(&review, &["namespace"], "must be empty except for namespace"));
    if let Some(resource) = review["spec"].get("resourceAttributes").filter(|r| r.is_object()) {
        let asked = resource["namespace"].as_str().unwrap_or_default();
        if asked != meta::namespace(&review) {
            let field = "spec.resourceAttributes.namespace";
            errors.push(invalid(field, &json!(asked), "must match metadata.namespace"));
        }
    }
    let path = &review["spec"]["nonResourceAttributes"];
    if path.is_object() {
        let detail = "disallowed on this kind of request";
        errors.push(invalid("spec.nonResourceAttributes", &internal(path), detail));
    }
    refuse(errors)?;
    let status = access(&review["spec"], &subject(&review["spec"]), store);
    stamp(&mut review, AUTHORIZATION, "LocalSubjectAccessReview", status);
    Ok(review)
}

/// Answers a SelfSubjectRulesReview of `user`.
pub fn self_subject_rules_review(
    review: &Value,
    user: &User,
    store: &Store,
) -> Result<Value, Status> {
    let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (rules, error) = rbac::rules_for(&StoredRoles(store), user.caller(), namespace);
    let mut status = json!({"resourceRules": [], "nonResourceRules": [], "incomplete": false});
    for (list, key, fields) in [
        ("resourceRules", "resources", &["verbs", "apiGroups", "resources", "resourceNames"][..]),
        ("nonResourceRules", "nonResourceURLs", &["verbs", "nonResourceURLs"][..]),
    ] {
        let of_kind =
            rules.iter().filter(|rule| rule[key].as_array().is_some_and(|k| !k.is_empty()));
        status[list] = of_kind.map(|rule| pick(rule, fields)).collect();
    }
    let mut errors: Vec<String> = error.into_iter().collect();
    if user.node_name().is_some() {
        status["incomplete"] = json!(true);
        errors.insert(0, "node authorizer does not support user rule resolution".into());
    }
    match errors.len() {
        0 => {}
        1 => status["evaluationError"] = json!(errors[0]),
        _ => status["evaluationError"] = json!(format!("[{}]", errors.join(", "))),
    }
    let mut answer = json!({"metadata": {}, "spec": {}});
    stamp(&mut answer, AUTHORIZATION, "SelfSubjectRulesReview", status);
    Ok(answer)
}

fn pick(rule: &Value, fields: &[&str]) -> Value {
    let set = fields.iter().filter_map(|&field| {
        let value = rule.get(field).filter(|v| v.as_array().is_some_and(|v| !v.is_empty()))?;
        Some((field.to_owned(), value.clone()))
    });
    Value::Object(set.collect())
}

fn access(spec: &Value, user: &User, store: &Store) -> Value {
    let attributes = &spec["resourceAttributes"];
    let text = |field: &str| attributes[field].as_str().unwrap_or_default();
    let path = |field: &str| spec["nonResourceAttributes"][field].as_str().unwrap_or_default();
    let fields = field_selectors(&attributes["fieldSelector"]);
    let attributes = if attributes.is_object() {
        Attributes {
            verb: text("verb"),
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            name: text("name"),
            namespace: text("namespace"),
            path: "",
            fields: &fields,
        }
    } else {
        Attributes { verb: path("verb"), path: path("path"), ..Attributes::default() }
    };
    let decision = decide(user, &attributes, store);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    status
}

/// The requirements of a field selector that ask for one value.
fn field_selectors(selector: &Value) -> Vec<(String, String)> {
    let raw = selector["rawSelector"].as_str().unwrap_or_default().split(',');
    let raw = raw.filter(|part| !part.contains("!=")).filter_map(|part| part.split_once('='));
    let raw = raw.map(|(key, value)| (key.to_owned(), value.trim_start_matches('=').to_owned()));
    let listed = selector["requirements"].as_array().into_iter().flatten();
    let listed =
        listed.filter(|r| r["operator"] == "In").filter_map(|requirement| {
            match &strings(&requirement["values"])[..] {
                [one] => Some((requirement["key"].as_str()?.to_owned(), one.clone())),
                _ => None,
            }
        });
    raw.chain(listed).collect()
}

fn subject(spec: &Value) -> User {
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text("user"),
        uid: text("uid"),
        groups: strings(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), strings(values))).collect(),
        impersonated: false,
    }
}

fn spec_errors(review: &Value, has_subject: bool) -> Vec<FieldError> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    if resource.is_object() && path.is_object() {
        let detail = "cannot be specified in combination with resourceAttributes";
        errors.push(invalid("spec.nonResourceAttributes", &internal(path), detail));
    }
    if !resource.is_object() && !path.is_object() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(invalid("spec.resourceAttributes", &Value::Null, detail));
    }
    let nobody = spec["user"].as_str().is_none_or(str::is_empty)
        && spec["groups"].as_array().is_none_or(Vec::is_empty);
    if has_subject && nobody {
        let detail = "at least one of user or group must be specified";
        errors.push(invalid("spec.user", &json!(""), detail));
    }
    errors
}

fn metadata_error(review: &Value, except: &[&str], detail: &str) -> Option<FieldError> {
    let metadata = review.get("metadata").and_then(Value::as_object)?;
    let fields = metadata.iter().filter(|(key, value)| {
        key.as_str() != "managedFields" && !except.contains(&key.as_str()) && !value.is_null()
    });
    fields.count().ne(&0).then(|| invalid("metadata", &review["metadata"], detail))
}

/// Kubernetes prints this object with the names of its Go fields.
fn internal(path: &Value) -> Value {
    json!({"Path": path["path"].as_str().unwrap_or(""), "Verb": path["verb"].as_str().unwrap_or("")})
}

fn invalid(field: &str, value: &Value, detail: &str) -> FieldError {
    FieldError::with_value(FieldErrorKind::Invalid, field, value, detail)
}

fn refuse(errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    // Kubernetes has lost the kind's name at this point: the message begins with a dot.
    Err(Status::invalid("authorization.k8s.io", "", "", &errors))
}

fn stamp(review: &mut Value, version: &str, kind: &str, status: Value) {
    let object: &mut Map<String, Value> = meta::as_map(review);
    object.insert("apiVersion".into(), json!(version));
    object.insert("kind".into(), json!(kind));
    object.entry("metadata").or_insert_with(|| json!({}));
    object.insert("status".into(), status);
}
