//! `serviceaccounts/token`: makes tokens, bound to a pod, a node, a secret or nothing.

use jiff::SignedDuration;
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::status::{Resource, Status};
use serde_json::{Value, json};

use super::token::strings;
use super::{Auth, ISSUER};
use crate::clock::seconds;
use crate::store::Store;

const DEFAULT_SECONDS: i64 = 3600;
/// What the ServiceAccount admission plugin asks for. Such a token lives a year, but clients are
/// expected to renew it after this time.
const WARN_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// The object a token is bound to, as claims.
#[derive(Debug, Default)]
struct Bound {
    pod: Option<Value>,
    node: Option<Value>,
    secret: Option<Value>,
}

impl Auth {
    /// Answers a TokenRequest for a service account: the posted object with its status filled in.
    pub fn issue(
        &self,
        namespace: &str,
        name: &str,
        mut request: Value,
        store: &Store,
    ) -> Result<Value, Status> {
        let account = store
            .get("serviceaccounts", namespace, name)
            .ok_or_else(|| Status::not_found(core("serviceaccounts"), name));
        matches_account(&request, "name", name, name)?;
        matches_account(&request, "namespace", namespace, name)?;
        let account = account?;
        let uid = meta::uid(&account.value);
        let asked = meta::uid(&request);
        if !asked.is_empty() && asked != uid {
            return Err(Status::conflict(
                Resource { group: "authentication.k8s.io", plural: "TokenRequest" },
                name,
                &format!(
                    "the UID in the token request ({asked}) does not match the UID of the service account ({uid})"
                ),
            ));
        }
        let spec = meta::field(&mut request, "spec");
        let mut audiences = spec.get("audiences").map(strings).unwrap_or_default();
        if audiences.is_empty() {
            audiences.clone_from(&self.audiences);
        }
        let lifetime =
            spec.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_SECONDS);
        spec.insert("audiences".into(), json!(audiences));
        spec.insert("expirationSeconds".into(), json!(lifetime));
        spec.entry("boundObjectRef").or_insert(Value::Null);
        check_lifetime(lifetime)?;
        let bound = bind(&request["spec"]["boundObjectRef"], namespace, name, store)?;

        let now = self.clock.now();
        let extended = bound.pod.is_some()
            && lifetime == WARN_SECONDS
            && audiences.iter().all(|audience| self.audiences.contains(audience));
        let from_now = now.as_second();
        let mut inner = json!({
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": uid},
        });
        if extended {
            inner["warnafter"] = json!(from_now + WARN_SECONDS);
        }
        for (kind, claim) in [("pod", bound.pod), ("node", bound.node), ("secret", bound.secret)] {
            if let Some(claim) = claim {
                inner[kind] = claim;
            }
        }
        let token = self.signer.sign(&json!({
            "iss": ISSUER,
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "aud": audiences,
            "iat": from_now,
            "nbf": from_now,
            "exp": from_now + if extended { EXTENDED_SECONDS } else { lifetime },
            "jti": uuid::Uuid::new_v4().to_string(),
            "kubernetes.io": inner,
        }))?;

        let expiry = now.saturating_add(SignedDuration::from_secs(lifetime)).unwrap_or(now);
        let metadata = meta::edit(&mut request);
        for (field, value) in [("name", name), ("namespace", namespace), ("uid", uid)] {
            metadata.insert(field.into(), json!(value));
        }
        metadata.insert("creationTimestamp".into(), json!(seconds(now)));
        request["apiVersion"] = json!("authentication.k8s.io/v1");
        request["kind"] = json!("TokenRequest");
        request["status"] = json!({"token": token, "expirationTimestamp": seconds(expiry)});
        Ok(request)
    }
}

fn matches_account(
    request: &Value,
    field: &str,
    expected: &str,
    account: &str,
) -> Result<(), Status> {
    let given = meta::text(request, field);
    if given.is_empty() || given == expected {
        return Ok(());
    }
    let error = FieldError::with_value(
        FieldErrorKind::Invalid,
        format!("metadata.{field}"),
        &json!(given),
        format!("must match the service account {field} if specified"),
    );
    Err(Status::invalid("authentication.k8s.io", "TokenRequest", account, &[error]))
}

fn check_lifetime(lifetime: i64) -> Result<(), Status> {
    let detail = match lifetime {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=0x1_0000_0000 => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let field = "spec.expirationSeconds";
    let error = FieldError::with_value(FieldErrorKind::Invalid, field, &json!(lifetime), detail);
    Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", &[error]))
}

fn bind(reference: &Value, namespace: &str, account: &str, store: &Store) -> Result<Bound, Status> {
    if reference.is_null() {
        return Ok(Bound::default());
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (name, kind, version) = (text("name"), text("kind"), text("apiVersion"));
    let group = version.split_once('/').map(|(group, _)| group).unwrap_or_default();
    let (plural, namespace) = match (group, kind) {
        ("", "Pod") => ("pods", namespace),
        ("", "Node") => ("nodes", ""),
        ("", "Secret") => ("secrets", namespace),
        _ => {
            let slash = if version.contains('/') { "" } else { "/" };
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {slash}{version}, Kind={kind}"
            )));
        }
    };
    let object =
        store.get(plural, namespace, name).ok_or_else(|| Status::not_found(core(plural), name))?;
    if kind == "Pod" && object.value["spec"]["serviceAccountName"] != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let (uid, asked) = (meta::uid(&object.value), text("uid"));
    if !asked.is_empty() && asked != uid {
        return Err(Status::conflict(
            core(kind),
            name,
            &format!(
                "the UID in the bound object reference ({asked}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        ));
    }
    let claim = Some(json!({"name": name, "uid": uid}));
    Ok(match kind {
        "Pod" => Bound { pod: claim, node: node_of(&object.value, store), secret: None },
        "Node" => Bound { node: claim, ..Bound::default() },
        _ => Bound { secret: claim, ..Bound::default() },
    })
}

/// The node of a pod; without uid if the Node object does not exist.
fn node_of(pod: &Value, store: &Store) -> Option<Value> {
    let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    Some(match store.get("nodes", "", name) {
        Some(node) => json!({"name": name, "uid": meta::uid(&node.value)}),
        None => json!({"name": name}),
    })
}

fn core(plural: &str) -> Resource<'_> {
    Resource { group: "", plural }
}
