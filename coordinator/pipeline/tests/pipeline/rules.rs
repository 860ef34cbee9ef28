//! Every rule of the webhooks: one input that breaks it, and what is said then: kind, field, reason, remedy.

use muster_api::TrainJob;
use muster_kube::FieldError;
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin::Context;
use muster_pipeline::runtime::Runtime;
use muster_pipeline::{Registry, validate};
use serde_json::{Value, json};

use crate::given::{Given, job, runtime, trains};

/// What is said to a job on this cluster.
fn said(given: &Given, old: Option<&Value>, new: &Value) -> Vec<FieldError> {
    let read = |job: &Value| serde_json::from_value::<TrainJob>(job.clone()).unwrap();
    let keys = Keys { seed: Some([7; 64]), curve_of_uid: false };
    let context = Context { cluster: given, settings: &given.settings, keys: &keys };
    let old = old.map(read);
    validate::train_job(&read(new), old.as_ref(), &context, &Registry::standard()).unwrap().errors
}

/// Exactly these errors, and each has a reason and a remedy.
fn expect(rule: &str, errors: &[FieldError], wanted: &[(&str, &str, &str)]) {
    let found: Vec<(&str, &str)> =
        errors.iter().map(|error| (error.kind.reason(), error.field.as_str())).collect();
    let fields: Vec<(&str, &str)> = wanted.iter().map(|(kind, field, _)| (*kind, *field)).collect();
    assert_eq!(found, fields, "{rule}: {errors:?}");
    for (error, (_, field, word)) in errors.iter().zip(wanted) {
        assert!(error.detail.contains(word), "{rule}: {error}");
        assert!(!error.remedy.is_empty(), "{rule}: {error} has no remedy");
        // What a user reads names the field first.
        assert!(error.to_string().starts_with(field), "{rule}: {error}");
    }
}

const INVALID: &str = "FieldValueInvalid";
const FORBIDDEN: &str = "FieldValueForbidden";

/// A job of a runtime; both are what breaks a rule.
struct Broken {
    rule: &'static str,
    ml: Value,
    jobs: Value,
    job: Value,
    said: &'static [(&'static str, &'static str, &'static str)],
}

fn broken(
    rule: &'static str,
    (ml, jobs): (Value, Value),
    job: Value,
    said: &'static [(&'static str, &'static str, &'static str)],
) -> Broken {
    Broken { rule, ml, jobs, job, said }
}

/// A step that fetches, without its mount.
fn fetches(container: &str) -> Value {
    json!({"name": "dataset-initializer", "replicas": 1, "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "dataset-initializer"}},
        "spec": {"template": {"spec": {"containers": [{"name": container, "image": "i"}]}}},
    }})
}

fn rules() -> Vec<Broken> {
    let plain = || (json!({}), json!([trains("node")]));
    let torch = || (json!({"torch": {}}), json!([trains("node")]));
    let mpi = |jobs: Value| (json!({"mpi": {"runLauncherAsNode": true}}), jobs);
    let injected = json!({"torch": {"envInjection":
        {"targets": [{"jobName": "node", "containerNames": ["side"]}]}}});
    let dataset = || json!({"initializer": {"dataset": {"storageUri": "hf://a/b"}}});
    let model = json!({"initializer": {"model": {"storageUri": "hf://a/b"}}});
    let env = |name: &str| json!({"trainer": {"env": [{"name": "A"}, {"name": name}]}});
    let patch = |manager: &str| json!({"runtimePatches": [{"manager": manager}]});
    let patched = json!({"runtimePatches": [{"manager": "a.example/b", "trainingRuntimeSpec":
        {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template":
        {"spec": {"containers": [{"name": "node", "env": [{"name": "A"}]}]}}}}}]}}}}]});
    let mut installed = trains("node");
    installed["template"]["spec"]["template"]["spec"]["initContainers"] =
        json!([{"name": "flux-installer", "image": "i"}]);
    let node = json!({"name": "node", "template":
        {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}});
    vec![
        broken(
            "a step that fetches needs its job",
            plain(),
            dataset(),
            &[(INVALID, "spec.runtimeRef", "must have dataset-initializer job")],
        ),
        broken(
            "and so does a model",
            plain(),
            model,
            &[(INVALID, "spec.runtimeRef", "must have model-initializer job")],
        ),
        broken(
            "it needs its container",
            (json!({}), json!([fetches("x"), trains("node")])),
            dataset(),
            &[(INVALID, "spec.runtimeRef", "must have container with name - dataset-initializer")],
        ),
        broken(
            "it needs its mount",
            (json!({}), json!([fetches("dataset-initializer"), trains("node")])),
            dataset(),
            &[(INVALID, "spec.runtimeRef", "must have volumeMount with name - initializer")],
        ),
        broken(
            "a manager has a domain",
            plain(),
            patch("nobody"),
            &[(INVALID, "spec.runtimePatches.manager", "domain-prefixed path")],
        ),
        broken(
            "a manager's domain is one",
            plain(),
            patch("No_Body/x"),
            &[(INVALID, "spec.runtimePatches.manager", "RFC 1123 subdomain")],
        ),
        broken(
            "a manager's path is one",
            plain(),
            patch("a.example/x y"),
            &[(INVALID, "spec.runtimePatches.manager", "Invalid path")],
        ),
        broken(
            "patches leave variables of trainers alone",
            plain(),
            patched,
            &[(INVALID, "spec.runtimePatches", "must not have envs")],
        ),
        broken(
            "variables go to containers that are there",
            (injected, json!([trains("node")])),
            json!({}),
            &[(INVALID, "spec.runtimeRef", "side")],
        ),
        broken(
            "Torch sets its variables",
            torch(),
            env("PET_NNODES"),
            &[(INVALID, "spec.trainer.env", "PET_NNODES")],
        ),
        broken(
            "MPI sets its variables",
            mpi(json!([trains("launcher"), node])),
            env("OMPI_MCA_plm_rsh_args"),
            &[(INVALID, "spec.trainer.env", "OMPI_MCA_plm_rsh_args")],
        ),
        broken(
            "MPI needs both jobs",
            mpi(json!([trains("launcher")])),
            json!({"trainer": {"numNodes": 2}}),
            &[(INVALID, "spec.trainer.numNodes", "runLauncherAsNode")],
        ),
        broken(
            "XGBoost sets its variables",
            (json!({"xgboost": {}}), json!([trains("node")])),
            env("DMLC_TASK_ID"),
            &[(FORBIDDEN, "spec.trainer.env[1]", "DMLC_TASK_ID is reserved")],
        ),
        broken(
            "Flux needs a process on each node",
            (json!({"flux": {}}), json!([trains("node")])),
            json!({"trainer": {"numNodes": 1, "numProcPerNode": 0}}),
            &[(INVALID, "spec.trainer.numProcPerNode", "greater than or equal to 1 for Flux")],
        ),
        broken(
            "Flux brings its init container",
            (json!({"flux": {}}), json!([installed])),
            json!({"trainer": {"numNodes": 1}}),
            &[(INVALID, "spec.trainer.initContainers", "'flux-installer' is reserved")],
        ),
    ]
}

#[test]
fn what_breaks_a_rule_of_a_plugin_is_refused_with_field_reason_and_remedy() {
    for Broken { rule, ml, jobs, job: spec, said: wanted } in rules() {
        let given = Given::of([runtime(ml, jobs)]);
        expect(rule, &said(&given, None, &job(spec)), wanted);
    }
}

#[test]
fn what_torchtune_cannot_do_is_refused_with_field_reason_and_remedy() {
    let tune = |name: &str, trainer: Value| {
        let mut runtime = runtime(json!({"torch": {}}), json!([trains("node")]));
        runtime["metadata"]["name"] = json!(name);
        let mut job = job(json!({"trainer": trainer}));
        job["spec"]["runtimeRef"]["name"] = json!(name);
        job["spec"]["trainer"]["command"] = json!(["tune", "run"]);
        said(&Given::of([runtime]), None, &job)
    };
    let (one, qwen) = ("torchtune-llama3.2-1b", "torchtune-qwen2.5-1.5b");
    let gpu = |count: &str| json!({"limits": {"nvidia.com/gpu": count}});
    let qlora = json!(["model.quantize_base=True"]);
    let name = "spec.runtimeRef.name";
    expect(
        "the model is known",
        &tune("other", json!({})),
        &[(INVALID, name, "supported pretrained model")],
    );
    expect(
        "small models have one node",
        &tune(one, json!({"numNodes": 2})),
        &[(INVALID, "spec.trainer.numNodes", "must be 1 for llama3_2/1B")],
    );
    let single = json!({"args": qlora, "resourcesPerNode": gpu("1")});
    expect("Qwen has no QLoRA", &tune(qwen, single), &[(INVALID, name, "QLoRA is not supported")]);
    let many = json!({"args": qlora, "resourcesPerNode": gpu("2")});
    expect(
        "QLoRA of small models has one device",
        &tune(one, many),
        &[
            (INVALID, "spec.trainer.numProcPerNode", "must be auto or 1"),
            (INVALID, "spec.trainer.resourcesPerNode", "gpu resource with value 1"),
        ],
    );
    let lora = json!({"numNodes": 2, "args": ["model.lora_attn_modules=[q_proj]"]});
    let errors = tune("torchtune-llama3.3-70b", lora);
    expect("LoRA has one node", &errors, &[(INVALID, "spec.trainer.numNodes", "LoRA")]);
    let fixed = json!({"args": ["lr=1", "output_dir=/x"]});
    expect(
        "what the runtime sets stays",
        &tune(one, fixed),
        &[(INVALID, "spec.trainer.args[1]", "output_dir")],
    );
}

#[test]
fn what_volcano_cannot_do_is_refused_with_field_reason_and_remedy() {
    let mut asked = runtime(json!({}), json!([trains("node")]));
    asked["spec"]["podGroupPolicy"] = json!({"volcano": {}});
    asked["spec"]["template"]["metadata"] =
        json!({"annotations": {"scheduling.volcano.sh/queue-name": ""}});
    let errors = said(&Given::of([asked.clone()]), None, &job(json!({})));
    let queue = "spec.annotations[scheduling.volcano.sh/queue-name]";
    expect("a queue has a name", &errors, &[(INVALID, queue, "must not be empty")]);
    asked["spec"]["template"]["metadata"] = json!({});
    asked["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        ["priorityClassName"] = json!("lost");
    let errors = said(&Given::of([asked]), None, &job(json!({})));
    expect(
        "a priority is there",
        &errors,
        &[(INVALID, "spec.templateSpec.priorityClassName", "\"lost\" doesn't exist")],
    );
}

#[test]
fn a_runtime_that_is_not_there_and_a_patch_that_comes_too_late_are_refused() {
    let errors = said(&Given::default(), None, &job(json!({})));
    expect("the runtime is there", &errors, &[(INVALID, "spec.RuntimeRef", "must be created")]);
    let mut local = job(json!({}));
    local["spec"]["runtimeRef"]["kind"] = json!("TrainingRuntime");
    let errors = said(&Given::default(), None, &local);
    expect("also in a namespace", &errors, &[(INVALID, "spec.runtimeRef", "must be created")]);
    let mut given = Given::of([runtime(json!({}), json!([trains("node")]))]);
    let old = job(json!({}));
    let new = job(json!({"runtimePatches": [{"manager": "a.example/b"}]}));
    let errors = said(&given, Some(&old), &new);
    expect(
        "a job that runs is not patched",
        &errors,
        &[(FORBIDDEN, "spec.runtimePatches", "suspended before or after")],
    );
    let mut suspended = new.clone();
    suspended["spec"]["suspend"] = json!(true);
    assert_eq!(said(&given, Some(&old), &suspended), []);
    given.objects.push(json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "job", "namespace": "team"}, "spec": {},
        "status": {"replicatedJobsStatus": [{"name": "node", "ready": 0, "succeeded": 0,
            "failed": 0, "active": 1, "suspended": 0}]}}));
    let errors = said(&given, Some(&old), &suspended);
    expect(
        "nor while its pods end",
        &errors,
        &[(FORBIDDEN, "spec.runtimePatches", "node is still active")],
    );
}

#[test]
fn what_breaks_a_rule_of_runtimes_is_refused_with_field_reason_and_remedy() {
    let mut twice = trains("node");
    twice["replicas"] = json!(2);
    twice["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = json!("main");
    let runtime = Runtime::read(runtime(json!({}), json!([trains("node"), twice]))).unwrap();
    let at = "spec.template.spec.replicatedJobs[1]";
    let errors = validate::runtime(&runtime).errors;
    let found: Vec<(&str, String)> =
        errors.iter().map(|e| (e.kind.reason(), e.field.clone())).collect();
    let wanted = vec![
        (INVALID, format!("{at}.replicas")),
        (INVALID, format!("{at}.template.spec.template.spec.containers")),
    ];
    assert_eq!(found, wanted);
    assert!(errors.iter().all(|error| !error.remedy.is_empty() && !error.detail.is_empty()));
}
