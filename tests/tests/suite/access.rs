//! Rights: a service account may do what its Role says and nothing else.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{Api, ListParams, PostParams};
use muster_tests::World;
use muster_tests::world::Seen;
use serde_json::json;

const ACCESS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reads-pods}
rules:
- apiGroups: ['']
  resources: [pods]
  verbs: [get, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader-reads-pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-pods}
subjects:
- {kind: ServiceAccount, name: reader, namespace: NAMESPACE}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_account_with_a_role_may_list_pods_and_not_secrets() -> Result<()> {
    World::new()
        .strict(true)
        .run(async |world| {
            let namespace = world.namespace().to_owned();
            world.create(&ACCESS.replace("NAMESPACE", &namespace)).await?;
            let accounts = world.api::<ServiceAccount>();
            let request: TokenRequest =
                serde_json::from_value(json!({ "spec": { "expirationSeconds": 600 } }))?;
            let answer =
                accounts.create_token_request("reader", &PostParams::default(), &request).await?;
            let token = answer.status.context("no token")?.token;
            let reader = world.client_as(&token)?;

            let pods: Api<Pod> = Api::namespaced(reader.clone(), &namespace);
            let listed = world
                .until("the right to list pods", async || {
                    Ok(Seen::Yes(pods.list(&ListParams::default()).await?))
                })
                .await?;
            assert!(listed.items.is_empty());

            let secrets: Api<Secret> = Api::namespaced(reader.clone(), &namespace);
            let refused = refusal(secrets.list(&ListParams::default()).await)?;
            assert_eq!(refused.code, 403);
            assert_eq!(
                refused.message,
                format!(
                    "secrets is forbidden: User \"system:serviceaccount:{namespace}:reader\" cannot list \
                     resource \"secrets\" in API group \"\" in the namespace \"{namespace}\""
                )
            );
            let elsewhere: Api<Pod> = Api::namespaced(reader, "kube-system");
            assert_eq!(refusal(elsewhere.list(&ListParams::default()).await)?.code, 403);
            let nobody: Api<Pod> = Api::namespaced(world.client_as("no-token")?, &namespace);
            assert_eq!(refusal(nobody.list(&ListParams::default()).await)?.code, 401);
            Ok(())
        })
        .await
}

fn refusal<T>(answer: kube::Result<T>) -> Result<kube::core::Status> {
    match answer {
        Err(kube::Error::Api(refused)) => Ok(*refused),
        Err(other) => Err(other.into()),
        Ok(_) => bail!("this should have been refused"),
    }
}
