//! From the bytes of a request to an object: media type, syntax, type, unknown fields.

use http::Method;
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::Value;

use crate::api::Call;
use crate::builtin;
use crate::kinds::{Custom, Kind};

const OBJECT_TYPES: &[&str] =
    &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Parses the body as JSON, YAML or protobuf, whatever it holds.
pub fn parse(call: &Call) -> Result<Value, Status> {
    // Custom resources have no protobuf; their delete options and scales do.
    let custom = call.kind.custom.is_some()
        && call.method != Method::DELETE
        && call.path.subresource != "scale";
    match call.content_type() {
        "" | "application/json" => json(&call.body).map_err(|status| {
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {} ({})",
                call.kind.kind,
                status.message,
                beginning(&call.body)
            ))
        }),
        "application/yaml" => yaml(&call.body),
        "application/vnd.kubernetes.protobuf" if !custom => builtin::from_protobuf(&call.body),
        _ if custom => Err(Status::unsupported_media_type(&OBJECT_TYPES[..2])),
        _ => Err(Status::unsupported_media_type(OBJECT_TYPES)),
    }
}

/// Parses the body as an object of the call's kind and takes its type off.
pub fn object(call: &Call) -> Result<Value, Status> {
    let mut value = parse(call)?;
    take_type(&call.kind, &mut value).map_err(|mut status| {
        if status.message.starts_with("Object '") {
            status.message = format!(
                "the object provided is unrecognized (must be of type {}): {} ({})",
                call.kind.kind,
                status.message,
                beginning(&call.body)
            );
        }
        status
    })?;
    Ok(value)
}

/// The first bytes of a body, as upstream quotes them.
fn beginning(body: &[u8]) -> String {
    match body.len() {
        0 => "<empty>".to_owned(),
        1..=30 => String::from_utf8_lossy(body).into_owned(),
        _ => format!("{} ...", String::from_utf8_lossy(&body[..30])),
    }
}

/// Parses JSON with upstream's words for what is wrong.
pub fn json(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|error| {
        let what = if body.is_empty() {
            "unexpected end of JSON input".to_owned()
        } else {
            go_words(body, &error)
        };
        Status::bad_request(format!("couldn't get version/kind; json parse error: {what}"))
    })
}

/// Parses YAML (and so JSON, which most clients send and which parses much faster as such).
pub fn yaml(body: &[u8]) -> Result<Value, Status> {
    if body.first() == Some(&b'{')
        && let Ok(value) = serde_json::from_slice(body)
        && super::duplicates::find(body).is_empty()
    {
        return Ok(value);
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Status::bad_request("the body is not UTF-8: send JSON or YAML text"))?;
    serde_saphyr::from_str(text)
        .map_err(|error| Status::bad_request(format!("error converting YAML to JSON: {error}")))
}

/// Go's words for the most frequent syntax error; ours for the rest.
pub fn go_words(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line_start = body
        .split(|b| *b == b'\n')
        .take(error.line().saturating_sub(1))
        .map(|l| l.len() + 1)
        .sum::<usize>();
    let at = body.get(line_start + error.column().saturating_sub(1)).copied();
    match at {
        Some(byte) if byte.is_ascii_graphic() => {
            format!("invalid character '{}' looking for beginning of value", byte as char)
        }
        _ => error.to_string(),
    }
}

/// Checks `apiVersion` and `kind` against the route and takes them off: stored objects carry none.
pub fn take_type(kind: &Kind, value: &mut Value) -> Result<(), Status> {
    let Value::Object(map) = value else {
        return Err(Status::bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        ));
    };
    let text = |v: Option<Value>| v.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    let (api_version, name) = (text(map.remove("apiVersion")), text(map.remove("kind")));
    let custom = kind.custom.is_some();
    if custom && name.is_empty() {
        return Err(missing("Kind", value));
    }
    if custom && api_version.is_empty() {
        return Err(missing("apiVersion", value));
    }
    let expected = kind.api_version();
    let wrong = |why: String| {
        let name = if name.is_empty() { &kind.kind } else { &name };
        Err(Status::bad_request(format!(
            "{name} in version {:?} cannot be handled as a {}: {why}",
            kind.version, kind.kind,
        )))
    };
    if custom && name != kind.kind {
        let error = FieldError::with_value(
            FieldErrorKind::Invalid,
            "kind",
            &Value::from(name.clone()),
            format!("must be {}", kind.kind),
        );
        return Err(Status::invalid(&kind.group, &name, meta::name(value), &[error]));
    }
    if custom && api_version != expected {
        // There is no schema for that version, so every field is unknown.
        let fields = value.as_object().into_iter().flatten().map(|(field, _)| field);
        let unknown = fields.filter(|field| *field != "metadata");
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        ))
        .warning(unknown.map(|field| format!("unknown field {field:?}"))));
    }
    if !api_version.is_empty() && api_version != expected {
        return wrong(format!(
            "no kind {:?} is registered for version {api_version:?} in scheme {SCHEME:?}",
            if name.is_empty() { &kind.kind } else { &name }
        ));
    }
    if !name.is_empty() && name != kind.kind {
        if muster_objects::shape::Shape::is_builtin(&kind.group, &name) {
            let internal = if kind.group.is_empty() { "core" } else { &kind.group };
            return wrong(format!(
                "converting ({0}.{name}) to ({internal}.{1}): unknown conversion",
                kind.version, kind.kind
            ));
        }
        return wrong(format!(
            "no kind {name:?} is registered for version {expected:?} in scheme {SCHEME:?}"
        ));
    }
    Ok(())
}

/// Upstream names the place in its own source; so do we, since clients print it.
const SCHEME: &str = "pkg/runtime/scheme.go:110";

fn missing(what: &str, value: &Value) -> Status {
    Status::bad_request(format!("Object '{what}' is missing in '{value}'"))
}

/// Drops what a custom resource's schema does not know, and says so as upstream does.
pub fn prune(custom: &Custom, value: &mut Value) -> Vec<String> {
    let dropped = custom.schema.prune(value).into_iter();
    dropped.map(|path| format!("unknown field {path:?}")).collect()
}

/// Drops what the kind does not know, fills in defaults, and returns the unknown fields.
pub fn shape_up(kind: &Kind, value: Value) -> Result<(Value, Vec<String>), Status> {
    match &kind.custom {
        Some(custom) => {
            let mut value = value;
            let unknown = prune(custom, &mut value);
            custom.schema.default(&mut value);
            Ok((value, unknown))
        }
        None => {
            let (mut value, unknown) = builtin::decode(&kind.group, &kind.kind, value)?;
            builtin::default(&kind.group, &kind.kind, &mut value);
            if kind.is_new_event() {
                value = builtin::event_from_v1(&value);
            }
            Ok((value, unknown))
        }
    }
}

/// Go's name for the type of a JSON value.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Object(_) => "object",
        Value::Null => "null",
    }
}

/// The fields that stand twice in a JSON body, unless nobody wants to know.
pub fn duplicates(call: &Call) -> Vec<String> {
    let json = matches!(call.content_type(), "" | "application/json");
    let asked = call.query.field_validation != "Ignore";
    if json && asked { super::duplicates::find(&call.body) } else { Vec::new() }
}

/// What `fieldValidation` makes of unknown fields: nothing, warnings, or a refusal.
pub fn judge_unknown(kind: &Kind, mode: &str, unknown: Vec<String>) -> Result<Vec<String>, Status> {
    match mode {
        "Ignore" => Ok(Vec::new()),
        "Strict" if !unknown.is_empty() => {
            let listed = format!("strict decoding error: {}", unknown.join(", "));
            Err(Status::bad_request(format!(
                "{0} in version {1:?} cannot be handled as a {0}: {listed}",
                kind.kind, kind.version
            )))
        }
        _ => Ok(unknown),
    }
}
