//! A small cluster with one job, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_dijob::api::{self, DIJob, Template};
use muster_dijob::make::Settings;
use muster_dijob::names::label;
use muster_dijob::pod::Pod;
use muster_dijob::server::answer::{Answer, Body};
use muster_dijob::server::{self, Begun, Next, Outcome, Request, View, Write};
use serde_json::{Value, json};

/// A cluster in memory.
#[derive(Default)]
pub struct World {
    /// Pods by name.
    pub pods: BTreeMap<String, Arc<Pod>>,
    pub job: Arc<DIJob>,
    /// The template of aggregators.
    pub aggregator: Option<Arc<Template>>,
    /// Devices of nodes.
    pub nodes: Vec<u64>,
    /// Names that were deleted.
    pub deleted: Vec<String>,
    /// The create that is refused, counted from 1.
    pub refuse: Option<usize>,
    /// Creates that find the name taken.
    pub taken: usize,
    /// Creates so far.
    pub creates: usize,
    /// How pods are made.
    pub settings: Settings,
    seed: u64,
}

/// What runs in a template.
pub fn replica() -> Value {
    json!({"template": {"spec": {"containers": [{"name": "di-container", "image": "ding"}]}}})
}

/// A job as it is written.
pub fn job() -> Value {
    json!({"metadata": {"name": "cartpole", "namespace": "rl", "uid": "job-1"},
        "spec": {"coordinator": replica(), "collector": replica(), "learner": replica()}})
}

impl World {
    /// With this job and its coordinator.
    pub fn new(job: &Value) -> Self {
        let job: Arc<DIJob> = Arc::new(api::read(job).unwrap());
        let aggregator: api::Replica = api::read(&replica()).unwrap();
        let mut world =
            Self { job, aggregator: Some(Arc::new(aggregator.template)), ..Self::default() };
        world.put("coordinator", "cartpole-coordinator", json!({"phase": "Running"}));
        world
    }

    /// There is this pod.
    pub fn put(&mut self, role: &str, name: &str, status: Value) -> &mut Pod {
        let labels = json!({label::GROUP: api::GROUP, label::JOB: "cartpole", label::POD: name,
            label::CONTROLLER: label::CONTROLLER_VALUE, label::ROLE: role});
        let pod = json!({"metadata": {"name": name, "namespace": "rl", "uid": format!("uid-{name}"),
            "labels": labels, "ownerReferences": [self.job.owner()]},
            "spec": {"containers": [{"name": "di-container"}]}, "status": status});
        self.pods.insert(name.to_owned(), Arc::new(api::read(&pod).unwrap()));
        Arc::make_mut(self.pods.get_mut(name).unwrap())
    }

    /// Asks, does what is to be written, and hands the answer on.
    pub fn ask(&mut self, method: &str, path: &str, query: &str, body: &str) -> Answer {
        let request = Request { method, path, query, body: body.as_bytes() };
        let mut work = match self.begin(&request) {
            Begun::Answer(answer) => return answer,
            Begun::Work(work) => work.marked("request-1"),
        };
        loop {
            match work.advance() {
                Next::Done(answer) => return answer,
                Next::Write(write) => work.done(self.write(write)),
            }
        }
    }

    /// Begins with a request.
    pub fn begin(&mut self, request: &Request<'_>) -> Begun {
        self.seed += 1;
        server::begin(self, &self.settings, request, self.seed)
    }

    /// Does a write.
    pub fn write(&mut self, write: Write) -> Outcome {
        match write {
            Write::Delete(named, _) => {
                assert_eq!(named.namespace, "rl");
                self.pods.remove(&named.name);
                self.deleted.push(named.name);
                Outcome::Deleted
            }
            Write::Create(pod) => {
                self.creates += 1;
                if self.refuse == Some(self.creates) {
                    return Outcome::Refused("exceeded quota".to_owned());
                }
                if self.taken > 0 {
                    self.taken -= 1;
                    return Outcome::Exists;
                }
                let (name, uid) = (pod.name().to_owned(), format!("uid-{}", pod.name()));
                let mut pod = *pod;
                pod.metadata.uid = Some(uid.clone());
                assert!(self.pods.insert(name, Arc::new(pod)).is_none(), "made twice");
                Outcome::Created(uid)
            }
        }
    }

    /// POST of replicas; status and body.
    pub fn create(&mut self, collectors: &Value, learners: &Value) -> (u16, Value) {
        let body = json!({"namespace": "rl", "coordinator": "cartpole-coordinator",
            "collectors": collectors, "learners": learners});
        body_of(self.ask("POST", server::REPLICAS, "", &body.to_string()))
    }

    /// DELETE of replicas.
    pub fn delete(&mut self, collectors: i64, learners: i64) -> (u16, Value) {
        let body = json!({"namespace": "rl", "coordinator": "cartpole-coordinator",
            "collectors": {"replicas": collectors}, "learners": {"replicas": learners}});
        body_of(self.ask("DELETE", server::REPLICAS, "", &body.to_string()))
    }

    /// A report of failed learners.
    pub fn failed(&mut self, learners: &[&str]) -> (u16, Value) {
        let body =
            json!({"namespace": "rl", "coordinator": "cartpole-coordinator", "learners": learners});
        body_of(self.ask("POST", server::FAILED, "", &body.to_string()))
    }

    /// Names of pods of a role.
    pub fn names(&self, role: &str) -> Vec<String> {
        let of = |pod: &&Arc<Pod>| pod.label(label::ROLE) == role;
        self.pods.values().filter(of).map(|pod| pod.name().to_owned()).collect()
    }
}

/// Status and body.
pub fn body_of(answer: Answer) -> (u16, Value) {
    match answer.body {
        Body::Json(body) => (answer.status, body),
        Body::Text(text) => (answer.status, text.into()),
    }
}

impl View for World {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods.get(name).filter(|pod| pod.namespace() == namespace).cloned()
    }

    fn pods(&self, namespace: Option<&str>) -> Vec<Arc<Pod>> {
        let wanted =
            |pod: &&Arc<Pod>| namespace.is_none_or(|namespace| pod.namespace() == namespace);
        self.pods.values().filter(wanted).cloned().collect()
    }

    fn pods_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods(Some(namespace));
        pods.retain(|pod| pod.label(label::JOB) == job);
        pods
    }

    fn job(&self, namespace: &str, name: &str) -> Option<Arc<DIJob>> {
        (self.job.namespace() == namespace && self.job.name() == name).then(|| self.job.clone())
    }

    fn aggregator(&self) -> Option<Arc<Template>> {
        self.aggregator.clone()
    }

    fn devices(&self, resource: &str) -> Vec<u64> {
        if resource == "huawei.com/Ascend910" { vec![16, 16] } else { self.nodes.clone() }
    }

    fn was_deleted(&self, _: &str, name: &str) -> bool {
        self.deleted.iter().any(|known| known == name)
    }
}
