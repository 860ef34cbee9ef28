//! People who use the cluster, with no more rights than they get there.

use anyhow::Context;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use super::{Seen, World};

/// The tenant's account in the world's namespace.
pub const TENANT: &str = "tenant";

impl World {
    /// A tenant: may do in the world's namespace what Kubernetes' own role `edit` allows, and nothing anywhere else.
    pub async fn tenant(&self) -> anyhow::Result<Client> {
        self.create_object(json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": TENANT}}))
            .await?;
        self.create_object(
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": TENANT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": TENANT, "namespace": self.namespace()}]}),
        )
        .await?;
        let request: TokenRequest = serde_json::from_value(
            json!({ "metadata": {}, "spec": { "audiences": [], "expirationSeconds": 3600 } }),
        )?;
        let accounts = self.api::<ServiceAccount>();
        let made = accounts.create_token_request(TENANT, &PostParams::default(), &request).await?;
        let client = self.client_as(&made.status.context("the answer has no token")?.token)?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), self.namespace());
        // New roles count a moment later.
        self.until("the tenant's rights", async || {
            pods.list(&ListParams::default()).await?;
            Ok(Seen::Yes(()))
        })
        .await?;
        Ok(client)
    }
}
