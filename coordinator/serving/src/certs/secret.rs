//! A bundle as a Secret, and back. Pure.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::Bundle;
use crate::names::CERTS_SECRET;

/// What is in a Secret; what is missing is empty, which nobody takes for a certificate.
pub(super) fn bundle(secret: &Secret) -> Bundle {
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
    };
    Bundle {
        authorities: text("ca.crt"),
        authority_key: text("ca.key"),
        certificate: text("tls.crt"),
        key: text("tls.key"),
    }
}

/// A Secret to be created.
pub(super) fn new(namespace: &str, bundle: Bundle) -> Secret {
    let metadata = ObjectMeta {
        name: Some(CERTS_SECRET.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    let type_ = Some("kubernetes.io/tls".to_owned());
    Secret { metadata, type_, data: Some(data(bundle)), ..Secret::default() }
}

/// A Secret to be applied over the one of this version.
pub(super) fn update(version: &str, bundle: Bundle) -> Value {
    let metadata = json!({ "name": CERTS_SECRET, "resourceVersion": version });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data(bundle) })
}

fn data(bundle: Bundle) -> BTreeMap<String, ByteString> {
    let Bundle { authorities, authority_key, certificate, key } = bundle;
    let parts = [
        ("ca.crt", authorities),
        ("ca.key", authority_key),
        ("tls.crt", certificate),
        ("tls.key", key),
    ];
    let entry = |(name, text): (&str, String)| (name.to_owned(), ByteString(text.into_bytes()));
    parts.into_iter().map(entry).collect()
}
