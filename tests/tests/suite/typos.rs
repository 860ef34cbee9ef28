//! Typing errors in pod templates are refused, whoever writes the object and however: a job without its devices would be the
//! alternative. What a newer Kubernetes may know is let through.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use muster_tests::World;
use muster_tests::behaviour::exchange::Ask;
use serde_json::{Value, json};

use super::dijob;
use super::trainjob::{held, job, torch};

/// Where a pod template has its first container.
const FIRST: &str = "spec.containers[0]";

fn pod(more: Value) -> Value {
    let mut pod = held();
    let container = &mut pod["spec"]["containers"][0];
    for (key, value) in more.as_object().into_iter().flatten() {
        container[key] = value.clone();
    }
    pod
}

fn typo() -> Value {
    pod(json!({"resource": {"limits": {"nvidia.com/gpu": 8}}}))
}

/// A ModelServing of either shape.
fn serving(short: bool, pod: Value) -> Value {
    let (version, spec) = match short {
        true => (
            "workload.kthena.io/v1alpha1",
            json!({"roles": [{"name": "a", "replicas": 1, "template": pod}]}),
        ),
        false => (
            "workload.serving.volcano.sh/v1alpha1",
            json!({"replicas": 1, "template": {"roles": [{"name": "a", "replicas": 1,
                "workerReplicas": 0, "entryTemplate": pod}]}}),
        ),
    };
    json!({"apiVersion": version, "kind": "ModelServing", "metadata": {"name": "typo"}, "spec": spec})
}

/// The refusal names the object, the field and what was meant.
async fn refused(world: &World, object: Value, at: &str) -> Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let Err(error) = world.create_object(object).await else {
        anyhow::bail!("the {kind} was taken");
    };
    let said = format!("{error:#}");
    let field = format!("{at}.{FIRST}.resource: Forbidden: unknown field, did you mean resources?");
    ensure!(said.contains(&field) && said.contains(&format!("{kind} ")), "{said}, not {field}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typing_error_in_a_pod_template_is_refused_by_every_kind_with_what_was_meant()
-> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let job_template = "spec.template.spec.replicatedJobs[0].template.spec.template";
            refused(world, torch("typo", typo()), job_template).await?;
            let mut local = torch("typo", typo());
            local["kind"] = json!("TrainingRuntime");
            refused(world, local, job_template).await?;
            let at = "spec.template.roles[0].entryTemplate";
            refused(world, serving(false, typo()), at).await?;
            refused(world, serving(true, typo()), "spec.roles[0].template").await?;
            let mut di = dijob::job("typo", "Running");
            di["spec"]["learner"]["template"]["spec"]["containers"][0]["resource"] = json!({});
            refused(world, di, "spec.learner.template").await?;
            let mut config = dijob::config();
            config["spec"]["aggregator"]["template"]["spec"]["containers"][0]["resource"] =
                json!({});
            refused(world, config, "spec.aggregator.template").await?;
            // What a patch leaves open to all of Kubernetes is looked at, too.
            world.create_object(torch("plain", held())).await?;
            let mut patched = job("typo", "plain", 1);
            patched["spec"]["runtimePatches"] = json!([{"manager": "acme.example/ops",
                "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "node",
                    "template": {"spec": {"template": {"spec": {"tolerations":
                        [{"key": "a", "opertor": "Exists"}]}}}}}]}}}}]);
            let Err(error) = world.create_object(patched).await else {
                anyhow::bail!("the job was taken")
            };
            let said = format!("{error:#}");
            ensure!(
                said.contains("tolerations[0].opertor") && said.contains("operator?"),
                "{said}"
            );
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_is_like_nothing_known_is_kept_with_a_warning_and_an_annotation_keeps_all()
-> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let mut object = torch(&world.own("newer"), pod(json!({"hologram": {"mode": "on"}})));
            let ask = |object: &Value| Ask {
                method: "POST".to_owned(),
                path: "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes".to_owned(),
                headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                body: object.to_string().into_bytes(),
            };
            let answer = ask(&object).send(&world.client()).await?;
            let kept =
                "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0";
            ensure!(answer.code == 201, "{answer:?}");
            ensure!(answer.body.pointer(kept).is_some_and(|it| it["hologram"]["mode"] == "on"));
            let says = |warning: &String| warning.contains("hologram") && warning.contains("1.34");
            ensure!(answer.warnings.iter().any(says), "{:?}", answer.warnings);
            object["metadata"]["name"] = json!(world.own("kept"));
            object["metadata"]["annotations"] = json!({"muster.dev/unknown-fields": "keep"});
            *object.pointer_mut(kept).ok_or_else(|| anyhow::anyhow!("no container"))? =
                json!({"name": "node", "image": "a:1", "resource": {}});
            let answer = ask(&object).send(&world.client()).await?;
            ensure!(answer.code == 201, "{answer:?}");
            // Without the annotation it may still be changed, as long as nothing else becomes wrong.
            let name = world.own("kept");
            let runtimes = world.cluster_runtimes();
            let change = Patch::Merge(
                json!({"metadata": {"annotations": null}, "spec": {"mlPolicy": {"numNodes": 2}}}),
            );
            runtimes.patch(&name, &PatchParams::default(), &change).await?;
            Ok(())
        })
        .await
}
