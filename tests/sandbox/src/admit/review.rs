//! AdmissionReview: the question to a webhook and its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use muster_objects::meta;
use muster_objects::status::{Details, Status};
use serde_json::{Value, json};

use super::{Attempt, Gvk, Operation};

/// What a webhook said.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ReviewAnswer {
    pub(super) allowed: bool,
    /// Empty if the object stays as it is.
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    /// The Status of a denial, as the webhook gave it.
    pub(super) status: Value,
    pub(super) warnings: Vec<String>,
}

/// An object with `apiVersion` and `kind`, in a version of its resource.
pub(super) fn stamped(
    attempt: &Attempt<'_>,
    object: Option<&Value>,
    version: &str,
) -> Option<Value> {
    let mut object = object?.clone();
    let api_version = shown_kind(attempt, version).api_version();
    let map = meta::as_map(&mut object);
    map.insert("apiVersion".into(), json!(api_version));
    map.insert("kind".into(), json!(attempt.kind.kind));
    Some(object)
}

/// The kind in the asked version. A body of another group than its resource has one version only.
fn shown_kind<'a>(attempt: &Attempt<'a>, version: &'a str) -> Gvk<'a> {
    if attempt.kind.group == attempt.resource.group {
        Gvk { version, ..attempt.kind }
    } else {
        attempt.kind
    }
}

/// The AdmissionRequest without uid and objects.
pub(super) fn request(attempt: &Attempt<'_>, version: &str) -> Value {
    let kind = |k: Gvk<'_>| json!({"group": k.group, "version": k.version, "kind": k.kind});
    let (group, resource) = (attempt.resource.group, attempt.resource.resource);
    let mut request = json!({
        "kind": kind(shown_kind(attempt, version)),
        "resource": {"group": group, "version": version, "resource": resource},
        "requestKind": kind(attempt.kind),
        "requestResource":
            {"group": group, "version": attempt.resource.version, "resource": resource},
        "operation": attempt.operation.to_string(),
        "userInfo": attempt.user.to_value(),
        "dryRun": attempt.dry_run,
        "options": options(attempt),
    });
    let name = match attempt.name {
        "" => attempt.object.as_ref().map(meta::name).unwrap_or_default(),
        name => name,
    };
    for (field, value) in [
        ("subResource", attempt.subresource),
        ("requestSubResource", attempt.subresource),
        ("name", name),
        ("namespace", attempt.selected_namespace()),
    ] {
        if !value.is_empty() {
            request[field] = json!(value);
        }
    }
    request
}

/// The options with their kind.
fn options(attempt: &Attempt<'_>) -> Value {
    let kind = match attempt.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return attempt.options.clone(),
    };
    let mut options = attempt.options.clone();
    let map = meta::as_map(&mut options);
    map.entry("kind").or_insert_with(|| json!(kind));
    map.entry("apiVersion").or_insert_with(|| json!("meta.k8s.io/v1"));
    options
}

/// The whole question.
pub(super) fn question(
    attempt: &Attempt<'_>,
    version: &str,
    review_version: &str,
    uid: &str,
) -> Value {
    let mut request = request(attempt, version);
    request["uid"] = json!(uid);
    let or_null = |object: Option<Value>| object.unwrap_or(Value::Null);
    request["object"] = or_null(stamped(attempt, attempt.object.as_ref(), version));
    request["oldObject"] = or_null(stamped(attempt, attempt.old, version));
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{review_version}"),
        "request": request,
    })
}

/// Reads an answer; an error says what is wrong with it.
pub(super) fn verdict(
    answer: &Value,
    review_version: &str,
    uid: &str,
    mutating: bool,
) -> Result<ReviewAnswer, String> {
    let response = answer.get("response").filter(|r| r.is_object());
    let response = response.ok_or("webhook response was absent")?;
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let mut patch_type = response["patchType"].as_str().map(str::to_owned);
    let patch = BASE64
        .decode(text(response, "patch"))
        .map_err(|error| format!("webhook returned an undecodable response.patch: {error}"))?;
    if review_version == "v1" {
        let given = text(response, "uid");
        if given != uid {
            return Err(format!("expected response.uid={uid:?}, got {given:?}"));
        }
        let (version, kind) = (text(answer, "apiVersion"), text(answer, "kind"));
        if version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
            let slash = if version.contains('/') { "" } else { "/" };
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {slash}{version}, Kind={kind}"
            ));
        }
        match (mutating, patch.is_empty(), patch_type.as_deref()) {
            (true, false, None) => {
                return Err("webhook returned response.patch but not response.patchType".into());
            }
            (true, true, Some(_)) => {
                return Err("webhook returned response.patchType but not response.patch".into());
            }
            (true, false, Some("")) => {
                return Err("webhook returned invalid response.patchType of \"\"".into());
            }
            (false, false, _) => {
                return Err("validating webhook may not return response.patch".into());
            }
            (false, _, Some(_)) => {
                return Err("validating webhook may not return response.patchType".into());
            }
            _ => {}
        }
    } else {
        patch_type = Some("JSONPatch".into());
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(ReviewAnswer {
        allowed: response["allowed"] == true,
        patch: if mutating { patch } else { Vec::new() },
        patch_type: patch_type.unwrap_or_default(),
        status: response["status"].clone(),
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

/// The refusal that a client sees when a webhook says no.
pub(super) fn denial(webhook: &str, status: &Value) -> Status {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let mut answer =
        Status::new(code.unwrap_or_default().max(400), text("reason").to_owned(), message);
    let details = status.get("details").filter(|details| details.is_object());
    let details = details.and_then(|d| serde_json::from_value::<Details>(d.clone()).ok());
    answer.details = details.map(Box::new);
    answer
}
