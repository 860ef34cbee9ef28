//! The store as the source of roles and bindings.

use std::sync::Arc;

use muster_objects::rbac::RoleSource;
use serde_json::Value;

use crate::store::{Object, Store};

/// Roles and bindings as they are in the store now.
#[derive(Debug)]
pub struct StoredRoles<'a>(pub &'a Store);

/// A shared object of the store.
#[derive(Debug)]
pub struct Stored(Arc<Object>);

const ROLES: &str = "roles.rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

// === impl Stored ===

impl AsRef<Value> for Stored {
    fn as_ref(&self) -> &Value {
        &self.0.value
    }
}

// === impl StoredRoles ===

impl StoredRoles<'_> {
    fn all(&self, resource: &str, namespace: Option<&str>) -> Vec<Stored> {
        self.0.list(resource, namespace).into_iter().map(Stored).collect()
    }
}

impl RoleSource for StoredRoles<'_> {
    type Object = Stored;

    fn role(&self, namespace: &str, name: &str) -> Option<Stored> {
        self.0.get(ROLES, namespace, name).map(Stored)
    }

    fn cluster_role(&self, name: &str) -> Option<Stored> {
        self.0.get(CLUSTER_ROLES, "", name).map(Stored)
    }

    fn cluster_roles(&self) -> Vec<Stored> {
        self.all(CLUSTER_ROLES, None)
    }

    fn role_bindings(&self, namespace: &str) -> Vec<Stored> {
        self.all(BINDINGS, Some(namespace))
    }

    fn cluster_role_bindings(&self) -> Vec<Stored> {
        self.all(CLUSTER_BINDINGS, None)
    }
}
