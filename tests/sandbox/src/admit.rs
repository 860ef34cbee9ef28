//! Admission: what may change or refuse a write before it is stored.
//!
//! ```text
//!   mutate:    compiled-in plugins ─▶ mutating webhooks ─▶ (once more, if a webhook changed something)
//!   validate:  compiled-in plugins ─▶ ValidatingAdmissionPolicies ─▶ validating webhooks, side by side
//! ```
//!
//! No lock of the store is held while a webhook is called.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta;
use muster_objects::status::{Resource, Status};
use serde_json::Value;

use crate::auth::User;
use crate::store::Store;

mod call;
mod configuration;
mod endpoint;
mod lifecycle;
mod matching;
mod mutating;
mod node_restriction;
mod plugin;
mod policy;
mod priority;
mod review;
mod runtime_class;
mod service_account;
mod taint;
#[cfg(test)]
mod tests;
mod toleration;
mod validating;

pub use configuration::{default_configuration, validate_configuration};
pub use endpoint::Services;
pub use plugin::{Plugin, plugins};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// POST, or a patch or put that creates.
    Create,
    /// PUT and PATCH.
    Update,
    /// An object is deleted.
    Delete,
    /// Subresources that connect, e.g. `pods/exec`.
    Connect,
}

/// Group, version and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gvk<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Version of the API, such as `v1`.
    pub version: &'a str,
    /// The kind as manifests write it.
    pub kind: &'a str,
}

/// Group, version and plural.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gvr<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Version of the API, such as `v1`.
    pub version: &'a str,
    /// The plural, as paths write it.
    pub resource: &'a str,
}

/// One write on its way to the store.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// What it does.
    pub operation: Operation,
    /// The kind in the request; for a subresource with a body of its own, that body's kind.
    pub kind: Gvk<'a>,
    /// The resource in the request.
    pub resource: Gvr<'a>,
    /// e.g. `status`, or empty.
    pub subresource: &'a str,
    /// Namespace, empty at the cluster scope. For Namespace objects their own name or empty.
    pub namespace: &'a str,
    /// Name; empty if the server is still to make one.
    pub name: &'a str,
    /// The object as it would be stored; none on delete. `apiVersion` and `kind` may be absent.
    pub object: Option<Value>,
    /// The object as it is stored; none on create. `apiVersion` and `kind` may be absent.
    pub old: Option<&'a Value>,
    /// The caller, authenticated.
    pub user: &'a User,
    /// Whether nothing is stored in the end.
    pub dry_run: bool,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions; null if unknown.
    pub options: Value,
    /// Warnings for the client, in order. Kept when the write is refused, too.
    pub warnings: Vec<String>,
}

/// A kind as the registry knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKind {
    /// The resource as the store names it: `plural` or `plural.group`.
    pub resource: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

/// What admission asks of the registry of kinds.
pub trait Kinds: Send + Sync {
    /// The resource of a kind, e.g. of the `paramKind` of a policy.
    fn find(&self, api_version: &str, kind: &str) -> Option<KnownKind>;
    /// All served versions of a resource: a webhook that names another version gets the object in it.
    fn versions(&self, group: &str, resource: &str) -> Vec<String>;
}

/// Admission of one server.
pub struct Admission {
    store: Arc<Store>,
    kinds: Arc<dyn Kinds>,
    plugins: Vec<Box<dyn Plugin>>,
    services: Services,
    client: call::Client,
    policies: policy::Compiled,
}

// === impl Operation ===

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        })
    }
}

// === impl Gvk ===

impl Gvk<'_> {
    /// `v1` or `group/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

// === impl Attempt ===

impl Attempt<'_> {
    /// Whether the request is about this resource itself, not a subresource.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty()
            && self.resource.group == group
            && self.resource.resource == resource
    }

    /// A 403 that names the object.
    pub fn forbid(&self, why: &str) -> Status {
        Status::forbidden(self.group_resource(), self.shown_name(), why)
    }

    /// The same while the object is in other hands.
    fn forbid_object(&self, object: &Value, why: &str) -> Status {
        let names = [self.name, meta::name(object), meta::text(object, "generateName"), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Status::forbidden(self.group_resource(), name, why)
    }

    fn group_resource(&self) -> Resource<'_> {
        Resource { group: self.resource.group, plural: self.resource.resource }
    }

    /// The name, or what the client gave in place of one.
    fn shown_name(&self) -> &str {
        let object = self.object.as_ref();
        let given = |field| object.map(|object| meta::text(object, field)).unwrap_or_default();
        let names = [self.name, given("name"), given("generateName"), "Unknown"];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
    }

    fn is_namespace(&self) -> bool {
        self.kind.group.is_empty() && self.kind.kind == "Namespace"
    }

    /// The namespace that selectors look at. A Namespace is in itself.
    fn selected_namespace(&self) -> &str {
        if self.is_namespace() && self.namespace.is_empty() {
            self.shown_name()
        } else {
            self.namespace
        }
    }

    /// Whether the object configures admission itself; such writes pass unseen.
    fn is_exempt(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io"
            && matches!(
                self.kind.kind,
                "ValidatingWebhookConfiguration"
                    | "MutatingWebhookConfiguration"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding"
            )
    }
}

// === impl Admission ===

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("services", &self.services).finish_non_exhaustive()
    }
}

impl Admission {
    /// The plugins of a stock server, and webhooks and policies from the store. `services` says where
    /// the Services that webhooks name can be reached.
    pub fn new(
        store: Arc<Store>,
        kinds: Arc<dyn Kinds>,
        services: HashMap<(String, String, u16), SocketAddr>,
    ) -> Self {
        Self {
            store,
            kinds,
            plugins: plugins(),
            services: Services::new(services),
            client: call::Client::default(),
            policies: policy::Compiled::default(),
        }
    }

    /// Where a Service can be reached from now on; for webhooks that start after the server.
    pub fn serve(&self, namespace: &str, name: &str, port: u16, address: SocketAddr) {
        self.services.insert(namespace, name, port, address);
    }

    /// Lets plugins and mutating webhooks change the object.
    pub async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        self.await_default_account(attempt).await;
        self.run_plugins(attempt)?;
        if attempt.is_exempt() {
            return Ok(());
        }
        let mut round = mutating::Round::default();
        self.call_mutating(attempt, &mut round).await?;
        if round.again(attempt) {
            self.run_plugins(attempt)?;
            round.begin_again(attempt);
            self.call_mutating(attempt, &mut round).await?;
        }
        Ok(())
    }

    /// Lets plugins, policies and validating webhooks refuse the write.
    pub async fn validate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        for plugin in &self.plugins {
            plugin.validate(attempt, &self.store)?;
        }
        if attempt.is_exempt() {
            return Ok(());
        }
        self.apply_policies(attempt)?;
        self.call_validating(attempt).await
    }

    fn run_plugins(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|plugin| plugin.admit(attempt, &self.store))
    }

    /// A controller makes the default service account of a new namespace; pods wait for it a while.
    async fn await_default_account(&self, attempt: &Attempt<'_>) {
        if !attempt.is("", "pods") || attempt.operation != Operation::Create {
            return;
        }
        let Some(pod) = &attempt.object else { return };
        if !matches!(pod["spec"]["serviceAccountName"].as_str(), None | Some("" | "default")) {
            return;
        }
        for _ in 0..50 {
            let missing = self.store.get("serviceaccounts", attempt.namespace, "default").is_none();
            if !missing || self.store.get("namespaces", "", attempt.namespace).is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
