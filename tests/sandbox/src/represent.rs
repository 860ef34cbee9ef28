//! How an answer is written: JSON or YAML, whole, as metadata only, or as a table.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use muster_objects::status::Status;
use serde_json::{Value, json};

use crate::builtin;
use crate::kinds::Kind;
use crate::store::Object;
use crate::table;

/// What the client asked for in `Accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Representation {
    /// Which form of the object.
    pub form: Form,
    /// YAML instead of JSON.
    pub yaml: bool,
}

/// The forms of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The object itself.
    Whole,
    /// Metadata alone, as `PartialObjectMetadata`.
    Metadata,
    /// A table for kubectl, `meta.k8s.io/v1`.
    Table,
}

const WHOLE_JSON: Representation = Representation { form: Form::Whole, yaml: false };

// === impl Representation ===

impl Representation {
    /// Takes the first media type that can be served.
    pub fn from_accept(headers: &HeaderMap) -> Result<Self, Status> {
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
        if accept.is_empty() {
            return Ok(WHOLE_JSON);
        }
        accept.split(',').find_map(Self::from_media_type).ok_or_else(|| {
            let mut status = Status::new(
                406,
                "NotAcceptable",
                "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            );
            status.details = Some(Box::default());
            status
        })
    }

    fn from_media_type(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let yaml = match parts.next()? {
            "application/json" | "*/*" | "application/*" => false,
            "application/yaml" => true,
            _ => return None,
        };
        let mut form = Form::Whole;
        for (key, value) in parts.filter_map(|p| p.split_once('=')) {
            match (key, value) {
                ("as", "Table") => form = Form::Table,
                ("as", "PartialObjectMetadata" | "PartialObjectMetadataList") => {
                    form = Form::Metadata;
                }
                ("as", _) => return None,
                ("g", group) if group != "meta.k8s.io" => return None,
                ("v", version) if version != "v1" && version != "v1beta1" => return None,
                ("stream", stream) if stream != "watch" => return None,
                _ => {}
            }
        }
        Some(Self { form, yaml })
    }

    /// One object, ready to send.
    pub fn object(self, code: u16, kind: &Kind, object: &Object, include: &str) -> Response<Body> {
        match self.form {
            Form::Whole if !self.yaml && is_verbatim(kind, object) => {
                send(code, whole(kind, object))
            }
            Form::Whole => self.value(code, &typed(kind, &object.value)),
            Form::Metadata => self.value(code, &metadata_only(&object.value)),
            Form::Table => self.value(code, &table::of(kind, &[&object.value], None, include)),
        }
    }

    /// Any other value.
    pub fn value(self, code: u16, value: &Value) -> Response<Body> {
        if self.yaml
            && let Ok(text) = serde_saphyr::to_string(value)
        {
            let mut response = send(code, text);
            let yaml = HeaderValue::from_static("application/yaml");
            response.headers_mut().insert(header::CONTENT_TYPE, yaml);
            return response;
        }
        send(code, serde_json::to_vec(value).unwrap_or_default())
    }
}

/// The serialised object with its type: made from the stored bytes, not serialised again.
pub fn whole(kind: &Kind, object: &Object) -> Bytes {
    let opening = kind.opening();
    let mut out = Vec::with_capacity(opening.len() + object.bare.len());
    out.extend_from_slice(opening.as_bytes());
    out.extend_from_slice(object.bare.get(1..).unwrap_or(b"}"));
    out.into()
}

/// Whether the stored bytes are what a client of `kind` sees: not so for the newer view of events, nor
/// for custom resources older than their schema, which may lack its defaults.
pub fn is_verbatim(kind: &Kind, object: &Object) -> bool {
    !kind.is_new_event() && kind.custom.as_ref().is_none_or(|custom| object.revision > custom.since)
}

/// The object as a client of `kind` sees it, with its type.
pub fn typed(kind: &Kind, value: &Value) -> Value {
    let mut out = viewed(kind, value);
    out["apiVersion"] = Value::String(kind.api_version());
    out["kind"] = Value::String(kind.kind.clone());
    out
}

/// The stored object in the terms of `kind`.
pub fn viewed(kind: &Kind, value: &Value) -> Value {
    if kind.is_new_event() {
        return builtin::event_to_v1(value);
    }
    let mut out = value.clone();
    if let Some(custom) = &kind.custom {
        custom.schema.prune(&mut out);
        custom.schema.default(&mut out);
    }
    out
}

/// `PartialObjectMetadata` of an object.
pub fn metadata_only(value: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]})
}

/// An answer in JSON.
pub fn send(code: u16, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A path that leads nowhere at all.
pub fn page_not_found() -> Response<Body> {
    let mut response = send(404, Bytes::from_static(b"404 page not found\n"));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// A refusal in JSON.
pub fn refuse(status: &Status) -> Response<Body> {
    let mut response = WHOLE_JSON.value(status.code, &status.to_value());
    let retry = status.details.as_ref().and_then(|d| d.retry_after_seconds);
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    warn(&mut response, &status.warnings);
    response
}

/// Adds `Warning` headers, as kubectl prints them.
pub fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &'static str) -> Result<Representation, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(text));
        Representation::from_accept(&headers)
    }

    #[test]
    fn the_first_media_type_that_can_be_served_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accept(kubectl).unwrap().form, Form::Table);
        assert_eq!(accept("application/vnd.kubernetes.protobuf,application/json"), Ok(WHOLE_JSON));
        assert_eq!(accept("*/*"), Ok(WHOLE_JSON));
        assert!(accept("application/yaml").unwrap().yaml);
        assert_eq!(accept("text/html").unwrap_err().code, 406);
    }
}
