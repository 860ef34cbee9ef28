//! What must hold of every job and of every request, whatever the input.
//!
//! ```text
//!   targets/*.rs (libFuzzer) ────────────┐
//!                                        ├──▶ a law: bytes in, asserts inside; says whether anything was read
//!   ../tests/behaviour/laws.rs (proptest)┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_dijob::api::{self, DIJob, Template, phase};
use muster_dijob::make::Settings;
use muster_dijob::names::label;
use muster_dijob::operator::{self, Remnants, Step};
use muster_dijob::pod::Pod;
use muster_dijob::server::answer::Body;
use muster_dijob::server::{self, Begun, Next, Outcome, Request, Route, View, Write};
use muster_dijob::{admission, service};
use serde_json::Value;

const NOW: &str = "2026-11-16T12:00:00Z";

/// Raw JSON is read or refused with a reason; what is read can be looked at, again and again, until nothing changes.
pub fn object(bytes: &[u8]) -> bool {
    let Ok(mut raw) = serde_json::from_slice::<Value>(bytes) else { return false };
    if let Some(policy) = admission::policy(&raw) {
        raw["spec"]["cleanPodPolicy"] = policy.into();
        assert_eq!(admission::policy(&raw), None, "it is filled in once");
    }
    let refused = admission::refusal(&raw);
    assert!(refused.as_ref().is_none_or(|why| !why.is_empty()));
    let _ = admission::warnings(&raw);
    let mut job: DIJob = match api::read(&raw) {
        Ok(job) => job,
        Err(why) => {
            assert!(!why.is_empty());
            return false;
        }
    };
    let (now, settings) = (NOW.parse().expect("a time"), Settings::default());
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    let before = job.phase().to_owned();
    for _ in 0..4 {
        let seen: Vec<&Pod> = pods.values().collect();
        let pass = operator::reconcile(&job, &seen, &[], &mut Remnants::default(), &settings, now);
        assert_eq!(pass.changed, job.status.as_ref() != Some(&pass.status));
        if phase::is_final(&before) {
            assert_eq!(pass.status.phase, before, "what has ended stays ended");
        }
        for step in &pass.steps {
            assert!(!step.done().message.is_empty());
            if let Step::CreatePod(pod) = step {
                assert_eq!(pod.job().map(|owner| owner.uid.as_str()), Some(job.uid()));
                assert_eq!(service::of(pod)["metadata"]["name"], pod.name());
                let mut pod = (**pod).clone();
                pod.status.insert("phase".to_owned(), "Running".into());
                pods.insert(pod.name().to_owned(), pod);
            }
        }
        assert!(pods.len() <= 1, "there is one coordinator");
        job.status = Some(pass.status);
    }
    true
}

/// Any body is answered; what is written is of the job that was named, and every create has a name of its own.
pub fn request(bytes: &[u8]) -> bool {
    let mut world = World::new();
    let Some((kind, body)) = bytes.split_first() else { return false };
    let (method, path) = match kind % 4 {
        0 => ("GET", server::REPLICAS),
        1 => ("POST", server::REPLICAS),
        2 => ("DELETE", server::REPLICAS),
        _ => ("POST", server::FAILED),
    };
    let query = String::from_utf8_lossy(body);
    let request = Request { method, path, query: &query, body };
    let _ = server::about(&request);
    let settings = Settings { most_replicas: 20, ..Settings::default() };
    let answer = match server::begin(&world, &settings, &request, 1) {
        Begun::Answer(answer) => answer,
        Begun::Work(work) => {
            assert!(Route::of(method, path).writes());
            let mut work = work.marked("r");
            let mut writes = 0;
            loop {
                writes += 1;
                assert!(writes < 200_000, "it ends");
                match work.advance() {
                    Next::Done(answer) => break answer,
                    Next::Write(write) => work.done(world.write(write, writes)),
                }
            }
        }
    };
    let Body::Json(body) = &answer.body else { panic!("the API answers in JSON") };
    assert_eq!(body["success"] == true, answer.status == 200);
    assert_eq!(body["code"] == 0, answer.status == 200);
    assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()));
    answer.status == 200
}

struct World {
    pods: BTreeMap<String, Arc<Pod>>,
    job: Arc<DIJob>,
}

impl World {
    fn new() -> Self {
        let replica =
            serde_json::json!({"template": {"spec": {"containers": [{"name": "di-container"}]}}});
        let job = serde_json::json!({"metadata": {"name": "j", "namespace": "n", "uid": "u"},
            "spec": {"coordinator": replica, "collector": replica, "learner": replica}});
        let job: Arc<DIJob> = Arc::new(api::read(&job).expect("a job"));
        let mut pods = BTreeMap::new();
        for (name, role) in
            [("c", "coordinator"), ("j-collector-b", "collector"), ("j-learner-b", "learner")]
        {
            let labels = serde_json::json!({label::JOB: "j", label::ROLE: role, label::POD: name});
            let pod = serde_json::json!({"metadata": {"name": name, "namespace": "n", "uid": name, "labels": labels,
                "ownerReferences": [job.owner()]}, "spec": {"containers": [{"name": "di-container"}]}});
            pods.insert(name.to_owned(), Arc::new(api::read(&pod).expect("a pod")));
        }
        Self { pods, job }
    }

    fn write(&mut self, write: Write, number: usize) -> Outcome {
        match write {
            Write::Delete(named, _) => {
                assert!(self.pods.remove(&named.name).is_some(), "what is deleted was there");
                Outcome::Deleted
            }
            Write::Create(_) if number.is_multiple_of(17) => Outcome::Exists,
            Write::Create(pod) => {
                assert_eq!((pod.namespace(), pod.label(label::JOB)), ("n", "j"));
                assert_eq!(pod.label(label::POD), pod.name());
                let name = pod.name().to_owned();
                if self.pods.insert(name.clone(), Arc::new(*pod)).is_some() {
                    return Outcome::Exists;
                }
                Outcome::Created(name)
            }
        }
    }
}

impl View for World {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods.get(name).filter(|_| namespace == "n").cloned()
    }

    fn pods(&self, namespace: Option<&str>) -> Vec<Arc<Pod>> {
        let wanted = namespace.is_none_or(|namespace| namespace == "n");
        self.pods.values().filter(|_| wanted).cloned().collect()
    }

    fn pods_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>> {
        if job == "j" { self.pods(Some(namespace)) } else { Vec::new() }
    }

    fn job(&self, namespace: &str, name: &str) -> Option<Arc<DIJob>> {
        (namespace == "n" && name == "j").then(|| self.job.clone())
    }

    fn aggregator(&self) -> Option<Arc<Template>> {
        Some(Arc::new(self.job.spec.coordinator.as_ref()?.template.clone()))
    }

    fn devices(&self, _: &str) -> Vec<u64> {
        vec![8, 8, 4]
    }

    fn was_deleted(&self, _: &str, _: &str) -> bool {
        false
    }
}
