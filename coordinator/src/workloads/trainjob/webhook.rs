//! TrainJobs and their runtimes: what is filled in, and what cannot work is refused when it is written.
//!
//! ```text
//!   unreadable ──▶ 400      wrong ──▶ 403, all that is wrong, each with its field      deprecated ──▶ a warning
//! ```
//!
//! What the API server's schema finds never comes to the validating webhook. A job is judged by its runtime as it is now, not by its
//! snapshot. One thing is judged before the schema is: Trainer 2.3 leaves a `numProcPerNode` below 1 to its webhook, so that what that says
//! comes before what the definition says.

pub mod runtimes;

use kube::core::DynamicObject;
use kube::core::admission::Operation;
use muster_api::TrainJob;
use muster_kube::FieldError;
use muster_pipeline::in_use::Holders;
use muster_pipeline::info::Info;
use muster_pipeline::keys::Keys;
use muster_pipeline::plugin::{Context, Verdict};
use muster_pipeline::runtime::RuntimeKind;
use muster_pipeline::{Cluster, Runtime, defaults, validate};
use serde_json::Value;

use crate::workloads::trainjob::Rules;
use crate::workloads::trainjob::caches::RuntimeId;
use crate::workloads::{queues, typos};
use muster_serving::webhook::{Answer, Request};

/// Where the API server asks what is to be filled in.
pub const DEFAULTS: &str = "/mutate-trainer-kubeflow-org-v1alpha1-trainjob";
/// Where it asks about jobs.
pub const JOBS: &str = "/validate-trainer-kubeflow-org-v1alpha1-trainjob";
/// Where it asks about runtimes of one namespace.
pub const RUNTIMES: &str = "/validate-trainer-kubeflow-org-v1alpha1-trainingruntime";
/// Where it asks about runtimes of all namespaces.
pub const CLUSTER_RUNTIMES: &str = "/validate-trainer-kubeflow-org-v1alpha1-clustertrainingruntime";

/// What is filled in, unless a job has no processes and its runtime's plugins refuse that.
pub fn mutate(request: &Request, cluster: &dyn Cluster, rules: &Rules) -> Answer {
    let Some(job) = asked(request) else { return Answer::allow() };
    if has_no_processes(request)
        && let refused @ Answer::Deny { .. } = validate(request, cluster, rules)
    {
        return refused;
    }
    let (job, old) = (value(job), request.old_object.as_ref().map(value));
    let changes = defaults::train_job(&job, old.as_ref(), jiff::Timestamp::now());
    if changes.is_empty() {
        return Answer::allow();
    }
    match serde_json::from_value(Value::Array(changes)) {
        Ok(patch) => Answer::Patch { patch, warnings: Vec::new() },
        Err(error) => refuse(500, format!("the patch cannot be written: {error}")),
    }
}

/// Whether a job asks for less than one process per node.
pub fn has_no_processes(request: &Request) -> bool {
    let count = asked(request)
        .and_then(|job| job.data.pointer("/spec/trainer/numProcPerNode"))
        .and_then(Value::as_i64);
    count.is_some_and(|count| count < 1)
}

/// What is said to a TrainJob that is created or changed.
pub fn validate(request: &Request, cluster: &dyn Cluster, rules: &Rules) -> Answer {
    let Some(object) = asked(request) else { return Answer::allow() };
    let read = |object: &DynamicObject| serde_json::from_value::<TrainJob>(value(object));
    let job = match read(object) {
        Ok(job) => job,
        Err(error) => return refuse(400, format!("the TrainJob cannot be read: {error}")),
    };
    // One that was written before all this may be changed, even if it cannot be read.
    let old = request.old_object.as_ref().and_then(|old| read(old).ok());
    let keys = Keys::default();
    let context = Context { cluster, settings: &rules.settings, keys: &keys };
    match validate::train_job(&job, old.as_ref(), &context, &rules.registry) {
        Ok(mut verdict) => {
            // As in the original it is no error: the JobSet has nothing to run, and is complete.
            if job.spec.trainer.as_ref().is_some_and(|trainer| trainer.num_nodes == Some(0)) {
                let warning =
                    "spec.trainer.numNodes is 0: the job is complete at once, without pods";
                verdict.warnings.push(warning.to_owned());
            }
            verdict.warnings.extend(unread_queue(&job, object, cluster, rules));
            answer(verdict, request, object)
        }
        Err(unsupported) => refuse(403, unsupported),
    }
}

/// That the job names a queue, and its pods a scheduler that does not read it.
fn unread_queue(
    job: &TrainJob,
    object: &DynamicObject,
    cluster: &dyn Cluster,
    rules: &Rules,
) -> Option<String> {
    let kind = RuntimeKind::of(&job.spec.runtime_ref)?;
    let runtime = cluster.runtime(kind, job.namespace(), &job.spec.runtime_ref.name)?;
    let mut info = Info::new(&runtime, job);
    info.name_scheduler(rules.settings.default_scheduler.as_deref());
    queues::warning(&value(object), info.schedulers(), &rules.settings.schedulers)
}

/// What is said to a runtime that is created or changed. The jobs that keep it are asked for only if it is being deleted.
pub fn validate_runtime(request: &Request, holding: impl Fn(&RuntimeId) -> Vec<String>) -> Answer {
    let Some(object) = asked(request) else {
        return Answer::Allow { warnings: deleting(request, holding).into_iter().collect() };
    };
    // A finalizer comes and goes however wrong the rest is.
    if let Some(old) = &request.old_object
        && old.data.get("spec") == object.data.get("spec")
    {
        return Answer::allow();
    }
    match Runtime::read(value(object)) {
        Ok(runtime) => answer(validate::runtime(&runtime), request, object),
        Err(error) => refuse(400, format!("the runtime cannot be read: {error}")),
    }
}

/// The same for runtimes of one namespace: as in the original, changes are not judged, but for typing errors in pod templates.
pub fn validate_new_runtime(
    request: &Request,
    holding: impl Fn(&RuntimeId) -> Vec<String>,
) -> Answer {
    match request.operation {
        Operation::Create => validate_runtime(request, holding),
        _ => match asked(request) {
            Some(object) => answer(Verdict::default(), request, object),
            None => Answer::Allow { warnings: deleting(request, holding).into_iter().collect() },
        },
    }
}

/// Whoever applies a runtime that is being deleted is told who keeps it: it vanishes with them, with what was applied. Those
/// who let it go, or write who keeps it, are not told.
fn deleting(request: &Request, holding: impl Fn(&RuntimeId) -> Vec<String>) -> Option<String> {
    let object = request.object.as_ref().filter(|_| request.operation == Operation::Update)?;
    let old = request.old_object.as_ref()?;
    if old.metadata.finalizers != object.metadata.finalizers
        || old.data.get("status") != object.data.get("status")
    {
        return None;
    }
    let namespace = object.metadata.namespace.clone();
    let kind = match namespace {
        Some(_) => RuntimeKind::Namespaced,
        None => RuntimeKind::Cluster,
    };
    let name = object.metadata.name.clone().unwrap_or_default();
    object.metadata.deletion_timestamp.as_ref()?;
    let id = RuntimeId::new(kind, &namespace.unwrap_or_default(), &name);
    let holders = Holders::of(&object.metadata, holding(&id))?;
    Some(format!("{} {name}: {}", kind.kind(), holders.message()))
}

/// What is to be looked at: what is created or changed and is not on its way out.
fn asked(request: &Request) -> Option<&DynamicObject> {
    let asked = matches!(request.operation, Operation::Create | Operation::Update);
    let whole = request.sub_resource.as_ref().is_none_or(String::is_empty);
    let object = request.object.as_ref().filter(|_| asked && whole)?;
    object.metadata.deletion_timestamp.is_none().then_some(object)
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// What is wrong, and typing errors in pod templates if nothing else is.
fn answer(mut verdict: Verdict, request: &Request, object: &DynamicObject) -> Answer {
    let said = |error: &FieldError| match error.remedy {
        "" => error.to_string(),
        remedy => format!("{error}; {remedy}"),
    };
    let errors: Vec<String> = verdict.errors.iter().map(said).collect();
    match errors.as_slice() {
        [] => match typos::judge(request, &value(object)) {
            Ok(warnings) => {
                verdict.warnings.extend(warnings);
                Answer::Allow { warnings: verdict.warnings }
            }
            Err(refused) => refused,
        },
        [error] => refuse(403, error),
        all => refuse(403, format!("[{}]", all.join(", "))),
    }
}

fn refuse(code: u16, message: impl ToString) -> Answer {
    Answer::Deny { code, message: message.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use muster_api::job_set::JobSet;
    use muster_pipeline::Settings;
    use muster_pipeline::snapshot::Snapshot;
    use muster_ranktable::TableTemplate;
    use muster_ranktable::inject::TemplateProblem;
    use serde_json::json;

    use super::*;

    const SHIPPED: &str = include_str!("../../../../deploy/coordinator/webhook.yaml");

    fn runtime(replicas: u32) -> Value {
        let container = json!({"name": "node", "image": "trainer:1"});
        let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
        json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
            "metadata": {"name": "torch"},
            "spec": {"template": {"spec": {"replicatedJobs": [{"name": "node", "replicas": replicas,
                "template": {"metadata": {"labels": labels},
                    "spec": {"template": {"spec": {"containers": [container]}}}}}]}}}})
    }

    fn request(operation: &str, object: &Value, old: &Value) -> Request {
        serde_json::from_value(json!({
            "uid": "u1",
            "kind": {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": object["kind"]},
            "resource": {"group": "trainer.kubeflow.org", "version": "v1alpha1", "resource": "any"},
            "operation": operation, "userInfo": {}, "name": object["metadata"]["name"],
            "object": object, "oldObject": old,
        }))
        .unwrap()
    }

    /// A cluster with one runtime at most.
    struct One(Option<Arc<Runtime>>);

    impl Cluster for One {
        fn runtime(&self, _: RuntimeKind, _: &str, _: &str) -> Option<Arc<Runtime>> {
            self.0.clone()
        }

        fn snapshot(&self, _: &str, _: &str) -> Option<Snapshot> {
            None
        }

        fn job_set(&self, _: &str, _: &str) -> Option<Arc<JobSet>> {
            None
        }

        fn exists(&self, _: &str, _: &str, _: &str, _: &str) -> bool {
            false
        }

        fn secret(&self, _: &str, _: &str) -> Option<BTreeMap<String, Vec<u8>>> {
            None
        }

        fn table_template(&self, _: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
            Err(TemplateProblem::Unread)
        }
    }

    fn rules() -> Rules {
        Rules::new(muster_pipeline::Registry::standard(), Settings::default())
    }

    fn nobody(_: &RuntimeId) -> Vec<String> {
        Vec::new()
    }

    fn validate_runtime(request: &Request) -> Answer {
        super::validate_runtime(request, nobody)
    }

    #[test]
    fn who_applies_a_runtime_that_is_being_deleted_is_told_who_keeps_it() {
        let mut old = runtime(1);
        old["metadata"]["finalizers"] = json!(["trainer.kubeflow.org/resource-in-use"]);
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"team": "vision"});
        let two = |id: &RuntimeId| {
            assert_eq!(*id, RuntimeId::new(RuntimeKind::Cluster, "", "torch"));
            vec!["n/b".to_owned(), "n/a".to_owned()]
        };
        let said =
            |old: &Value, new: &Value| super::validate_runtime(&request("UPDATE", new, old), two);
        assert_eq!(said(&old, &new), Answer::allow(), "it stays");
        for object in [&mut old, &mut new] {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let warning = "ClusterTrainingRuntime torch: it is being deleted and goes with the last of \
            2 TrainJobs (n/a, n/b); apply it again after that";
        let warned = Answer::Allow { warnings: vec![warning.to_owned()] };
        assert_eq!(said(&old, &new), warned);
        assert_eq!(said(&old, &old), warned, "what is applied again need not differ");
        assert_eq!(validate_new_runtime(&request("UPDATE", &new, &old), two), warned);
        new["metadata"]["finalizers"] = json!([]);
        assert_eq!(said(&old, &new), Answer::allow(), "somebody lets it go");
    }

    #[test]
    fn a_runtime_that_is_wrong_is_refused_with_its_field() {
        let created =
            |replicas| validate_runtime(&request("CREATE", &runtime(replicas), &Value::Null));
        assert_eq!(created(1), Answer::allow());
        let Answer::Deny { code, message } = created(2) else { panic!("taken") };
        assert_eq!(code, 403);
        let field =
            "spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2: always must be 1";
        assert!(message.starts_with(field), "{message}");
    }

    #[test]
    fn a_wrong_runtime_of_before_may_lose_its_finalizer_but_not_become_wrong_in_another_way() {
        let (mut old, mut new) = (runtime(2), runtime(2));
        old["metadata"]["finalizers"] = json!(["trainer.kubeflow.org/resource-in-use"]);
        assert_eq!(validate_runtime(&request("UPDATE", &new, &old)), Answer::allow());
        new["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = json!(3);
        let update = request("UPDATE", &new, &old);
        assert!(matches!(validate_runtime(&update), Answer::Deny { code: 403, .. }));
        assert_eq!(
            validate_new_runtime(&update, nobody),
            Answer::allow(),
            "as the original has it"
        );
        new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(validate_runtime(&request("UPDATE", &new, &old)), Answer::allow());
    }

    #[test]
    fn a_patch_of_a_new_job_gets_a_time() {
        let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"runtimeRef": {"name": "torch"}, "runtimePatches": [{"manager": "a.b/c"}]}});
        let mutated =
            |operation| mutate(&request(operation, &job, &Value::Null), &One(None), &rules());
        let Answer::Patch { patch, .. } = mutated("CREATE") else { panic!("nothing is filled in") };
        let patch = serde_json::to_value(&patch).unwrap();
        assert_eq!(patch[0]["path"], "/spec/runtimePatches/0/time");
        assert_eq!(mutated("DELETE"), Answer::allow());
    }

    #[test]
    fn a_job_without_processes_is_refused_before_the_schema_sees_it_where_a_plugin_says_so() {
        let mutated = |policy: Value, count: i64| {
            let mut runtime = runtime(1);
            runtime["spec"]["mlPolicy"] = policy;
            let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
                "metadata": {"name": "a", "namespace": "b"},
                "spec": {"runtimeRef": {"name": "torch", "kind": "ClusterTrainingRuntime",
                    "apiGroup": "trainer.kubeflow.org"}, "trainer": {"numProcPerNode": count}}});
            let cluster = One(Some(Arc::new(Runtime::read(runtime).unwrap())));
            mutate(&request("CREATE", &job, &Value::Null), &cluster, &rules())
        };
        let Answer::Deny { code, message } = mutated(json!({"flux": {}}), 0) else {
            panic!("taken")
        };
        assert_eq!(code, 403);
        let said =
            "spec.trainer.numProcPerNode: Invalid value: 0: must be greater than or equal to 1";
        assert!(message.starts_with(said), "{message}");
        assert_eq!(mutated(json!({"flux": {}}), 1), Answer::allow());
        assert_eq!(mutated(json!({"torch": {}}), 0), Answer::allow(), "the definition refuses it");
    }

    #[test]
    fn the_shipped_configurations_ask_here() {
        let documents: Vec<Value> = serde_saphyr::from_multiple(SHIPPED).unwrap();
        for (kind, path, resource) in [
            ("MutatingWebhookConfiguration", DEFAULTS, "trainjobs"),
            ("ValidatingWebhookConfiguration", JOBS, "trainjobs"),
            ("ValidatingWebhookConfiguration", RUNTIMES, "trainingruntimes"),
            ("ValidatingWebhookConfiguration", CLUSTER_RUNTIMES, "clustertrainingruntimes"),
        ] {
            let ours = documents.iter().filter(|document| document["kind"] == kind);
            let webhooks = ours.flat_map(|document| document["webhooks"].as_array().unwrap());
            let here = |webhook: &&Value| webhook["clientConfig"]["service"]["path"] == path;
            let [webhook] = webhooks.filter(here).collect::<Vec<_>>()[..] else { panic!("{path}") };
            assert_eq!(webhook["failurePolicy"], "Fail");
            assert_eq!(webhook["rules"][0]["resources"], json!([resource]));
            assert_eq!(webhook["rules"][0]["operations"], json!(["CREATE", "UPDATE"]));
        }
    }
}
