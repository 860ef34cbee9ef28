//! The pods that a workload's controller would make, as far as they can be told from the workload alone.

use jiff::Timestamp;
use muster_modelserving::pod::Plain;
use muster_modelserving::seen::PodGroupApi;
use muster_modelserving::shape::{Serving, Shape};
use muster_modelserving::step::Kind;
use muster_modelserving::{defaults, preview};
use serde_json::{Map, Value as Json, json};

use super::MOST_PODS;

/// Pods, and owners between them and the workload.
#[derive(Default)]
pub(super) struct Sample {
    pub(super) pods: Vec<Json>,
    pub(super) others: Vec<Json>,
}

/// The pods of an object. None of what is no workload, and of what has its pods or its parts in the files.
pub(super) fn pods(object: &Json, all: &[Json]) -> Result<Sample, String> {
    let mut sample = Sample::default();
    if object["kind"] == "Pod" {
        sample.pods.push(object.clone());
        return Ok(sample);
    }
    if all.iter().any(|other| is_owner(object, other)) {
        return Ok(sample);
    }
    match text(&object["kind"]) {
        "Deployment" => {
            let set = sample.below(object, "apps/v1", "ReplicaSet", "1");
            sample.copies(&set, &object["spec"]["template"], replicas(object), &json!({}));
        }
        "StatefulSet" | "ReplicaSet" => {
            sample.copies(object, &object["spec"]["template"], replicas(object), &json!({}));
        }
        "Job" => sample.job(object, &object["spec"], &json!({})),
        "CronJob" => {
            let job = sample.below(object, "batch/v1", "Job", "1");
            sample.job(&job, &object["spec"]["jobTemplate"]["spec"], &json!({}));
        }
        "JobSet" => sample.job_set(object),
        "LeaderWorkerSet" => sample.leader_worker_set(object),
        "TFJob" => sample.kubeflow(object, "tfReplicaSpecs"),
        "PyTorchJob" => sample.kubeflow(object, "pytorchReplicaSpecs"),
        "XGBoostJob" => sample.kubeflow(object, "xgbReplicaSpecs"),
        "JAXJob" => sample.kubeflow(object, "jaxReplicaSpecs"),
        "MPIJob" => sample.kubeflow(object, "mpiReplicaSpecs"),
        "RayCluster" => sample.ray(object, &object["spec"]),
        "ModelServing" => sample.serving(object)?,
        "DIJob" => {
            for part in ["coordinator", "learner", "collector"] {
                let labels =
                    json!({"dijob-name": object["metadata"]["name"], "replica-type": part});
                let template = &object["spec"][part]["template"];
                let count = usize::from(template.is_object());
                sample.copies(object, template, count, &labels);
            }
        }
        "TrainJob" => {
            return Err("give its JobSet too; musterctl trainjob render shows it".to_owned());
        }
        _ if object["spec"]["template"].is_object() => {
            sample.copies(object, &object["spec"]["template"], replicas(object), &json!({}));
        }
        "RayJob" | "RayService" | "Workflow" | "PodCliqueSet" | "DynamoGraphDeployment" => {
            return Err("give its pods too: they cannot be told from it alone".to_owned());
        }
        _ => {}
    }
    Ok(sample)
}

// === impl Sample ===

impl Sample {
    /// An owner between a workload and its pods.
    fn below(&mut self, owner: &Json, api: &str, kind: &str, suffix: &str) -> Json {
        let name = format!("{}-{suffix}", text(&owner["metadata"]["name"]));
        let between = json!({"apiVersion": api, "kind": kind,
            "metadata": {"name": name, "namespace": owner["metadata"]["namespace"],
                "uid": "UID", "ownerReferences": [reference(owner)]}});
        self.others.push(between.clone());
        between
    }

    /// So many pods of a template.
    fn copies(&mut self, owner: &Json, template: &Json, count: usize, labels: &Json) {
        for at in 0..count.min(MOST_PODS) {
            self.one(owner, template, &at.to_string(), labels);
        }
    }

    /// A pod of a template.
    fn one(&mut self, owner: &Json, template: &Json, suffix: &str, labels: &Json) {
        let mut metadata = template["metadata"].as_object().cloned().unwrap_or_default();
        let mut all = metadata.get("labels").and_then(Json::as_object).cloned().unwrap_or_default();
        all.extend(labels.as_object().cloned().unwrap_or_default());
        metadata.insert("labels".to_owned(), all.into());
        let name = format!("{}-{suffix}", text(&owner["metadata"]["name"]));
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("namespace".to_owned(), owner["metadata"]["namespace"].clone());
        metadata.insert("uid".to_owned(), "UID".into());
        metadata.insert("ownerReferences".to_owned(), json!([reference(owner)]));
        let spec = template["spec"].as_object().cloned().unwrap_or_else(Map::new);
        self.pods
            .push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
    }

    fn job(&mut self, job: &Json, spec: &Json, labels: &Json) {
        self.copies(job, &spec["template"], number(&spec["parallelism"], 1), labels);
    }

    fn job_set(&mut self, set: &Json) {
        for replicated in list(&set["spec"]["replicatedJobs"]) {
            let name = text(&replicated["name"]);
            for at in 0..number(&replicated["replicas"], 1).min(MOST_PODS) {
                let job = self.below(set, "batch/v1", "Job", &format!("{name}-{at}"));
                let labels = json!({"jobset.sigs.k8s.io/replicatedjob-name": name,
                    "jobset.sigs.k8s.io/job-index": at.to_string()});
                self.job(&job, &replicated["template"]["spec"], &labels);
            }
        }
    }

    fn leader_worker_set(&mut self, set: &Json) {
        let template = &set["spec"]["leaderWorkerTemplate"];
        for group in 0..replicas(set).min(MOST_PODS) {
            for worker in 0..number(&template["size"], 1).min(MOST_PODS) {
                let labels = json!({
                    "leaderworkerset.sigs.k8s.io/group-index": group.to_string(),
                    "leaderworkerset.sigs.k8s.io/worker-index": worker.to_string()});
                let leader = &template["leaderTemplate"];
                let own = worker == 0 && leader.is_object();
                let template = if own { leader } else { &template["workerTemplate"] };
                self.one(set, template, &format!("{group}-{worker}"), &labels);
            }
        }
    }

    fn kubeflow(&mut self, job: &Json, specs: &str) {
        let roles = job["spec"][specs].as_object().into_iter().flatten();
        for (role, spec) in roles {
            let role = role.to_lowercase();
            for at in 0..number(&spec["replicas"], 1).min(MOST_PODS) {
                let labels = json!({
                    "training.kubeflow.org/job-name": job["metadata"]["name"],
                    "training.kubeflow.org/job-role": role,
                    "training.kubeflow.org/replica-type": role,
                    "training.kubeflow.org/replica-index": at.to_string()});
                self.one(job, &spec["template"], &format!("{role}-{at}"), &labels);
            }
        }
    }

    fn ray(&mut self, cluster: &Json, spec: &Json) {
        let head = json!({"ray.io/group": "headgroup"});
        self.one(cluster, &spec["headGroupSpec"]["template"], "head", &head);
        for (at, group) in list(&spec["workerGroupSpecs"]).enumerate() {
            let named = text(&group["groupName"]);
            let name =
                if named.is_empty() { format!("worker-group-{at}") } else { named.to_owned() };
            let hosts = number(&group["numOfHosts"], 1);
            let count = number(&group["replicas"], 0).saturating_mul(hosts).min(MOST_PODS);
            for pod in 0..count {
                let labels = json!({"ray.io/group": name});
                self.one(cluster, &group["template"], &format!("{name}-{pod}"), &labels);
            }
        }
    }

    fn serving(&mut self, object: &Json) -> Result<(), String> {
        let mut raw = object.clone();
        if let Some(shape) = raw["apiVersion"].as_str().and_then(Shape::of) {
            defaults::fill(shape, &mut raw);
        }
        let serving = Serving::read(&raw).map_err(|error| error.to_string())?;
        let shape = serving.shape();
        let serving = serving.into_model_serving();
        let objects =
            preview::objects(&serving, shape, PodGroupApi::Absent, &Plain, Timestamp::now());
        let objects = objects.map_err(|error| error.to_string())?;
        let pods = objects.into_iter().filter(|object| object.kind == Kind::Pod);
        for mut pod in pods.map(|pod| pod.body) {
            pod["metadata"]["uid"] = json!("UID");
            self.pods.push(pod);
        }
        Ok(())
    }
}

fn reference(owner: &Json) -> Json {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]})
}

fn is_owner(object: &Json, other: &Json) -> bool {
    let metadata = &object["metadata"];
    other["metadata"]["namespace"] == metadata["namespace"]
        && list(&other["metadata"]["ownerReferences"])
            .any(|owner| owner["kind"] == object["kind"] && owner["name"] == metadata["name"])
}

fn replicas(object: &Json) -> usize {
    number(&object["spec"]["replicas"], 1)
}

fn number(value: &Json, otherwise: u64) -> usize {
    usize::try_from(value.as_u64().unwrap_or(otherwise)).unwrap_or(MOST_PODS)
}

fn list(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}
