//! What a leader sent, and what arrives when another leads: the API server refuses it.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use muster_coordinator::names::LEASE;
use muster_tests::World;
use muster_tests::world::agents::NAMESPACE;
use muster_tests::world::{PATIENCE, Seen, Wire};
use serde_json::{Value, json};

const POLICY: &str = include_str!("../../../deploy/coordinator/policy.yaml");
const ACCOUNT: &str = "muster-coordinator";
/// A pod that nobody places.
const VICTIM: &str = "victim";

/// Two coordinators, as the API server knows them: by the pods that their tokens are bound to.
struct Stage {
    before: Client,
    after: Client,
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"schedulerName": "nobody", "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}]}})
}

/// Sends a Binding of the victim.
async fn bind(world: &World, client: &Client, node: &str) -> kube::Result<Value> {
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": VICTIM},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    let pods: Api<Pod> = Api::namespaced(client.clone(), world.namespace());
    let path = format!("{}/{VICTIM}/binding", pods.resource_url());
    let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

impl Stage {
    /// The policy as it is shipped, a node, the victim, and two pods of coordinators.
    async fn set(world: &World) -> Result<Self> {
        world.coordinators().context("the account's rights")?;
        for document in serde_saphyr::from_multiple::<Value>(POLICY)? {
            world.create_if_missing(document).await?;
        }
        world.create_object(pod(VICTIM)).await?;
        let stage = Self {
            before: world.client_as(&token(world, "before").await?)?,
            after: world.client_as(&token(world, "after").await?)?,
        };
        lead(world, "before").await?;
        Ok(stage)
    }

    /// Another leads, and every write of the one before is refused from some moment on.
    async fn depose(&self, world: &World) -> Result<()> {
        lead(world, "after").await?;
        let maps: Api<ConfigMap> = Api::namespaced(self.before.clone(), world.namespace());
        let probe: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "probe"}}))?;
        world
            .until("a refusal", async || match maps.create(&PostParams::default(), &probe).await {
                Err(error) if is_late(&error) => Ok(Seen::Yes(())),
                other => Ok(Seen::NotYet(format!("{other:?}"))),
            })
            .await
    }
}

/// A token as a pod of the coordinators has it.
async fn token(world: &World, name: &str) -> Result<String> {
    let name = format!("{}-{name}", world.namespace());
    let mut object = pod(&name);
    object["metadata"]["namespace"] = NAMESPACE.into();
    object["spec"]["serviceAccountName"] = ACCOUNT.into();
    let made = world.create_object(object).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client(), NAMESPACE);
    let request: TokenRequest = serde_json::from_value(json!({"metadata": {}, "spec": {
        "audiences": [], "expirationSeconds": 3600,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"]}}}))?;
    let made = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await?;
    Ok(made.status.context("the answer has no token")?.token)
}

/// Writes who leads into the Lease.
async fn lead(world: &World, name: &str) -> Result<()> {
    let holder = format!("{}-{name}_1b4e28ba-2fa1-11d2-883f-0016d3cca427", world.namespace());
    let leases: Api<Lease> = Api::namespaced(world.client(), NAMESPACE);
    let change = json!({"spec": {"holderIdentity": holder}});
    leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// Whether the policy refused it.
fn is_late(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403 && status.message.contains("does not lead any more"))
}

/// Takes away what a real cluster shares with others.
async fn clear(world: &World) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(world.client(), NAMESPACE);
    for name in ["before", "after"] {
        let name = format!("{}-{name}", world.namespace());
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
    }
    let leases: Api<Lease> = Api::namespaced(world.client(), NAMESPACE);
    let change = json!({"spec": {"holderIdentity": ""}});
    leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(&change)).await?;
    for document in serde_saphyr::from_multiple::<Value>(POLICY)? {
        world.delete_object(&document).await?;
    }
    Ok(())
}

/// Runs a test on a stage whose own coordinator has gone.
async fn on_stage(test: impl AsyncFn(&World, &Stage) -> Result<()>) -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            world.remove_webhook().await;
            world.kill_for_good(0).await?;
            let stage = Stage::set(world).await?;
            let tested = test(world, &stage).await;
            clear(world).await?;
            tested
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_of_a_deposed_leader_counts_and_its_successors_do() -> Result<()> {
    on_stage(async |world, stage| {
        stage.depose(world).await?;
        let pods = |client: &Client| Api::<Pod>::namespaced(client.clone(), world.namespace());
        let late = pods(&stage.before);
        let phase = Patch::Merge(json!({"status": {"message": "late"}}));
        let made: Pod = serde_json::from_value(pod("made"))?;
        let refused = [
            ("creation", late.create(&PostParams::default(), &made).await.map(drop)),
            ("binding", bind(world, &stage.before, "n").await.map(drop)),
            ("eviction", late.evict(VICTIM, &EvictParams::default()).await.map(drop)),
            ("deletion", late.delete(VICTIM, &DeleteParams::default()).await.map(drop)),
            ("status", late.patch_status(VICTIM, &PatchParams::default(), &phase).await.map(drop)),
        ];
        for (what, answer) in refused {
            let error = answer.err().with_context(|| format!("a late {what} counted"))?;
            ensure!(is_late(&error), "{what}: {error}");
        }
        // It may still ask who somebody is, and for the lead.
        let review: TokenReview =
            serde_json::from_value(json!({"metadata": {}, "spec": {"token": "none"}}))?;
        Api::<TokenReview>::all(stage.before.clone())
            .create(&PostParams::default(), &review)
            .await?;
        let leases: Api<Lease> = Api::namespaced(stage.before.clone(), NAMESPACE);
        let lease = leases.get(LEASE).await?;
        leases.replace(LEASE, &PostParams::default(), &lease).await?;
        let now = pods(&stage.after);
        now.create(&PostParams::default(), &made).await?;
        now.delete("made", &DeleteParams::default()).await?;
        now.patch_status(VICTIM, &PatchParams::default(), &phase).await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_the_network_held_back_is_refused_when_another_leads() -> Result<()> {
    on_stage(async |world, stage| {
        let wire = Wire::new();
        let mut held = wire.hold_create("/binding");
        let client = wire.client(stage.before.clone());
        let node = world.kubelets().and_then(|all| all.nodes().next()).context("a node")?;
        let sent = bind(world, &client, node.name());
        let arrives = async {
            tokio::time::timeout(PATIENCE, held.caught()).await.context("nothing was sent")??;
            stage.depose(world).await?;
            held.release().await
        };
        let (_, answer) = tokio::join!(sent, arrives);
        ensure!(answer? == 403, "a late binding counted");
        let victim = world.api::<Pod>().get(VICTIM).await?;
        ensure!(muster_tests::world::scheduling::node(&victim).is_none(), "{victim:?}");
        Ok(())
    })
    .await
}
