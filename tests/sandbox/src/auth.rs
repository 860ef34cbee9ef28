//! Who a caller is and what it may do: tokens, impersonation, access control and the review kinds.
//!
//! ```text
//!   headers ──▶ authenticate ──▶ User ──▶ authorize ──▶ node authoriser, then RBAC
//! ```

use std::collections::BTreeMap;

use http::{HeaderMap, header};
use muster_objects::rbac::{self, Attributes, Caller, Decision};
use muster_objects::status::{Resource, Status};
use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::store::Store;

mod bootstrap;
mod impersonate;
mod issue;
mod node;
mod review;
mod roles;
mod signer;
#[cfg(test)]
mod tests;
mod token;

pub use bootstrap::bootstrap;
pub use review::{
    local_subject_access_review, self_subject_access_review, self_subject_review,
    self_subject_rules_review, subject_access_review, token_review,
};
pub use roles::StoredRoles;
use signer::Signer;

/// The issuer of tokens and the audience of the API, as a stock cluster has them.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The group of everybody with valid credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody else.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// A caller, as authentication found it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name that RBAC knows.
    pub name: String,
    /// Uid, empty if unknown.
    pub uid: String,
    /// Groups, `system:authenticated` included.
    pub groups: Vec<String>,
    /// What else is known, e.g. the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Whether somebody else acts as this user. Such a user is held to RBAC in every mode.
    pub impersonated: bool,
}

/// How strict the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Without credentials a caller is `system:admin`. Only impersonated users are held to RBAC.
    #[default]
    Open,
    /// Credentials are needed and RBAC is enforced.
    Strict,
}

/// Authentication and authorisation of one server.
#[derive(Debug)]
pub struct Auth {
    mode: Mode,
    clock: Clock,
    signer: Signer,
    audiences: Vec<String>,
    statics: BTreeMap<String, User>,
}

// === impl User ===

impl User {
    /// The administrator: a member of `system:masters`.
    pub fn admin() -> Self {
        Self::new("system:admin", &[rbac::MASTERS, AUTHENTICATED])
    }

    /// A user with a name and groups.
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&g| g.to_owned()).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// A service account, with its fixed groups.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let local = format!("system:serviceaccounts:{namespace}");
        Self::new(
            format!("system:serviceaccount:{namespace}:{name}"),
            &["system:serviceaccounts", &local, AUTHENTICATED],
        )
    }

    /// The user of a node's kubelet.
    pub fn node(name: &str) -> Self {
        Self::new(format!("system:node:{name}"), &["system:nodes", AUTHENTICATED])
    }

    /// For a user in `system:nodes`: the name of its node, empty if the user name has none.
    pub fn node_name(&self) -> Option<&str> {
        let rest = self.name.strip_prefix("system:node:")?;
        self.groups.iter().any(|g| g == "system:nodes").then_some(rest)
    }

    /// Whether the user may do everything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|g| g == rbac::MASTERS)
    }

    /// The `userInfo` of reviews.
    pub fn to_value(&self) -> Value {
        let mut value = Map::new();
        value.insert("username".into(), json!(self.name));
        if !self.uid.is_empty() {
            value.insert("uid".into(), json!(self.uid));
        }
        if !self.groups.is_empty() {
            value.insert("groups".into(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            value.insert("extra".into(), json!(self.extra));
        }
        Value::Object(value)
    }

    fn caller(&self) -> Caller<'_> {
        Caller { name: &self.name, groups: &self.groups }
    }
}

// === impl Auth ===

impl Auth {
    /// A server with a fresh key for tokens.
    pub fn new(mode: Mode, clock: Clock) -> Result<Self, Status> {
        Ok(Self {
            mode,
            clock,
            signer: Signer::new()?,
            audiences: vec![ISSUER.to_owned()],
            statics: BTreeMap::new(),
        })
    }

    /// Also accepts `token`, as `user`.
    pub fn with_token(mut self, token: impl Into<String>, user: User) -> Self {
        self.statics.insert(token.into(), user);
        self
    }

    /// How strict this server is.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The public key set of the tokens, as `/openid/v1/jwks` serves it.
    pub fn jwks(&self) -> Value {
        self.signer.jwks()
    }

    /// Who sent a request with these headers.
    pub fn authenticate(&self, headers: &HeaderMap, store: &Store) -> Result<User, Status> {
        let user = match bearer(headers) {
            Some(token) => {
                let valid = self.check(token, &self.audiences, store);
                valid.map_err(|_| Status::unauthorized())?.user
            }
            None if self.mode == Mode::Open => User::admin(),
            None => return Err(Status::unauthorized()),
        };
        self.impersonate(user, headers, store)
    }

    /// Lets the request pass, or says 403.
    pub fn authorize(
        &self,
        user: &User,
        attributes: &Attributes<'_>,
        store: &Store,
    ) -> Result<(), Status> {
        if self.mode == Mode::Open && !user.impersonated {
            return Ok(());
        }
        let decision = decide(user, attributes, store);
        if decision.allowed { Ok(()) } else { Err(refusal(user, attributes, &decision.reason)) }
    }
}

/// The access decision for a user, whatever the mode: masters, the node authoriser, then RBAC.
pub fn decide(user: &User, attributes: &Attributes<'_>, store: &Store) -> Decision {
    if user.is_master() {
        return Decision { allowed: true, reason: String::new() };
    }
    let mut reasons = Vec::new();
    if let Some(node) = user.node_name() {
        let decision = node::decide(node, attributes, store);
        if decision.allowed {
            return decision;
        }
        reasons.push(decision.reason);
    }
    let decision = rbac::allowed(&StoredRoles(store), user.caller(), attributes);
    if decision.allowed {
        return decision;
    }
    reasons.push(decision.reason);
    reasons.retain(|reason| !reason.is_empty());
    Decision { allowed: false, reason: reasons.join("\n") }
}

/// The 403 for a request.
fn refusal(user: &User, attributes: &Attributes<'_>, reason: &str) -> Status {
    let Attributes { verb, group, resource, subresource, name, namespace, path, .. } = *attributes;
    let user = &user.name;
    let mut why = if resource.is_empty() {
        format!("User {user:?} cannot {verb} path {path:?}")
    } else {
        let scope = match namespace {
            "" => "at the cluster scope".to_owned(),
            _ => format!("in the namespace {namespace:?}"),
        };
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!(
            "User {user:?} cannot {verb} resource \"{resource}{slash}{subresource}\" in API group {group:?} {scope}"
        )
    };
    why = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    if resource.is_empty() {
        let mut status = Status::new(403, "Forbidden", format!("forbidden: {why}"));
        status.details = Some(Box::default());
        return status;
    }
    Status::forbidden(Resource { group, plural: resource }, name, &why)
}

/// The bearer token of a request, if it has one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, rest) = value.split_once(' ')?;
    let token = rest.split(' ').next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
