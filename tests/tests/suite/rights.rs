//! What each of our identities may do, asked of the API server's own authorizer.
//!
//! The lists are what the programs need and what would be a way in. That an agent changes nothing but one annotation of pods
//! of its own node is not RBAC's: `agent.rs` tries it.

use anyhow::{Result, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::{Api, PostParams};
use muster_tests::World;
use muster_tests::world::Seen;
use serde_json::json;

const AGENT: &str = "muster-agent";
const COORDINATOR: &str = "muster-coordinator";
/// Any namespace of a tenant, and our own.
const TENANT: &str = "default";
const OWN: &str = "muster-system";

/// Verb, group, resource with subresource, namespace (empty: all), name (empty: any).
type Question = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// Whether an account of our namespace may.
async fn may(world: &World, account: &str, question: Question) -> Result<bool> {
    let (verb, group, resource, namespace, name) = question;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "metadata": {},
        "spec": {
            "user": format!("system:serviceaccount:{OWN}:{account}"),
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{OWN}"), "system:authenticated"],
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": subresource,
                "namespace": namespace, "name": name},
        },
    }))?;
    let api: Api<SubjectAccessReview> = Api::all(world.client());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Asks everything; what is answered otherwise than it should be.
async fn ask(
    world: &World,
    account: &str,
    allowed: &[Question],
    refused: &[Question],
) -> Result<()> {
    // New roles count a moment later.
    let first = allowed[0];
    world
        .until("the first right", async || {
            let may = may(world, account, first).await?;
            Ok(if may { Seen::Yes(()) } else { Seen::NotYet(format!("{first:?} is refused")) })
        })
        .await?;
    let mut wrong = Vec::new();
    for (wanted, questions) in [(true, allowed), (false, refused)] {
        for question in questions {
            if may(world, account, *question).await? != wanted {
                wrong.push((wanted, question));
            }
        }
    }
    ensure!(wrong.is_empty(), "{account}, as it should be: {wrong:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authorizer_allows_what_agents_and_coordinators_need_and_refuses_what_they_do_not()
-> Result<()> {
    World::new()
        .strict(true)
        .agents()
        .run(async |world| {
            let allowed: &[Question] = &[
                ("list", "", "pods", "", ""),
                ("watch", "", "pods", "", ""),
                ("patch", "", "pods", TENANT, "any"),
                ("get", "", "nodes", "", "n"),
            ];
            let refused: &[Question] = &[
                ("create", "", "pods", TENANT, ""),
                ("delete", "", "pods", TENANT, "any"),
                ("update", "", "pods", TENANT, "any"),
                ("patch", "", "pods/status", TENANT, "any"),
                ("patch", "", "pods/ephemeralcontainers", TENANT, "any"),
                ("create", "", "pods/exec", TENANT, "any"),
                ("create", "", "pods/binding", TENANT, "any"),
                ("get", "", "pods/log", TENANT, "any"),
                ("list", "", "nodes", "", ""),
                ("patch", "", "nodes", "", "n"),
                ("patch", "", "nodes/status", "", "n"),
                ("get", "", "nodes/proxy", "", "n"),
                ("get", "", "secrets", OWN, "muster-coordinator-certs"),
                ("list", "", "secrets", "", ""),
                ("get", "", "configmaps", TENANT, "any"),
                ("patch", "", "configmaps", TENANT, "any"),
                ("create", "", "serviceaccounts/token", OWN, AGENT),
                ("update", "coordination.k8s.io", "leases", OWN, COORDINATOR),
                ("create", "authentication.k8s.io", "tokenreviews", "", ""),
                ("create", "", "events", TENANT, ""),
                ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""),
                ("patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", AGENT),
                ("impersonate", "", "users", "", "kubernetes-admin"),
            ];
            ask(world, AGENT, allowed, refused).await?;

            let allowed: &[Question] = &[
                ("get", "", "pods", TENANT, "any"),
                ("create", "", "pods", TENANT, ""),
                ("patch", "", "pods", TENANT, "any"),
                ("deletecollection", "", "pods", TENANT, ""),
                ("create", "", "pods/binding", TENANT, "any"),
                ("create", "", "pods/eviction", TENANT, "any"),
                ("patch", "", "pods/status", TENANT, "any"),
                ("patch", "", "configmaps", TENANT, "any"),
                ("patch", "trainer.kubeflow.org", "trainjobs/status", TENANT, "any"),
                ("patch", "trainer.kubeflow.org", "clustertrainingruntimes", "", "any"),
                ("create", "jobset.x-k8s.io", "jobsets", TENANT, ""),
                ("update", "scheduling.run.ai", "podgroups", TENANT, "any"),
                ("create", "", "events", TENANT, ""),
                ("create", "authentication.k8s.io", "tokenreviews", "", ""),
                ("update", "coordination.k8s.io", "leases", OWN, COORDINATOR),
                ("update", "", "secrets", OWN, "muster-coordinator-certs"),
            ];
            let refused: &[Question] = &[
                ("update", "", "pods", TENANT, "any"),
                ("create", "", "pods/exec", TENANT, "any"),
                ("get", "", "pods/log", TENANT, "any"),
                ("patch", "", "nodes", "", "n"),
                ("get", "", "nodes/proxy", "", "n"),
                ("patch", "", "secrets", TENANT, "any"),
                ("delete", "", "secrets", TENANT, "any"),
                ("update", "", "secrets", OWN, "somebody-elses"),
                ("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
                ("update", "coordination.k8s.io", "leases", OWN, "somebody-elses"),
                ("patch", "trainer.kubeflow.org", "trainjobs", TENANT, "any"),
                ("delete", "trainer.kubeflow.org", "trainjobs", TENANT, "any"),
                ("delete", "trainer.kubeflow.org", "clustertrainingruntimes", "", "any"),
                ("patch", "diengine.opendilab.org", "dijobs", TENANT, "any"),
                ("patch", "workload.kthena.io", "modelservings", TENANT, "any"),
                ("delete", "scheduling.run.ai", "queues", "", "any"),
                (
                    "patch",
                    "apiextensions.k8s.io",
                    "customresourcedefinitions",
                    "",
                    "trainjobs.trainer.kubeflow.org",
                ),
                ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""),
                (
                    "delete",
                    "admissionregistration.k8s.io",
                    "validatingwebhookconfigurations",
                    "",
                    "any",
                ),
                ("create", "", "serviceaccounts/token", OWN, AGENT),
                ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""),
                ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", "any"),
                ("impersonate", "", "users", "", "kubernetes-admin"),
                ("list", "", "namespaces", "", ""),
            ];
            ask(world, COORDINATOR, allowed, refused).await
        })
        .await
}
