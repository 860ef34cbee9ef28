//! A cluster in memory, just large enough for one ModelServing: what is written is there at once, and is heard of.
#![allow(dead_code, reason = "not every test looks at all of it")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use muster_modelserving::api::{ModelServing, Spec};
use muster_modelserving::machine::{Event, Machine};
use muster_modelserving::naming::{self, Shape};
use muster_modelserving::pod::Plain;
use muster_modelserving::seen::{PodGroupApi, Seen};
use muster_modelserving::step::{Failure, Heard, Kind, Later, Object, Plan, Step, Write};
use serde_json::{Value, json};

/// What happened during one step of a case.
#[derive(Default)]
pub struct Record {
    pub creates: Vec<Value>,
    pub updates: Vec<Value>,
    pub deletes: Vec<String>,
    pub calls: Vec<String>,
    pub notes: Vec<String>,
    pub errors: Vec<String>,
}

/// Something that watchers are yet to hear of.
enum Told {
    PodChanged(String),
    PodGone(Box<Pod>),
    ServiceGone(ObjectMeta),
    PodGroupGone(ObjectMeta),
    SpecChanged(Box<Spec>),
}

/// The cluster, and the machine that works on it.
pub struct Cluster {
    pub serving: Option<ModelServing>,
    pub shape: Shape,
    pub machine: Machine,
    pub pods: BTreeMap<String, Pod>,
    pub services: BTreeMap<String, Service>,
    pub pod_groups: BTreeMap<String, (ObjectMeta, Value)>,
    pub revisions: BTreeMap<String, ControllerRevision>,
    pub api: PodGroupApi,
    pub graceful: bool,
    /// The name of a pod that cannot be created.
    pub refused: Option<String>,
    /// So many deletions are refused before the next one is accepted.
    pub stubborn: usize,
    pub record: Record,
    told: VecDeque<Told>,
    queued: bool,
    later: Vec<(Duration, Option<Later>)>,
    clock: Duration,
    uids: usize,
}

impl Cluster {
    pub fn new(serving: ModelServing, api: PodGroupApi, graceful: bool) -> Cluster {
        Cluster {
            serving: Some(serving),
            shape: Shape::Kthena,
            machine: Machine::new(Shape::Kthena),
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            pod_groups: BTreeMap::new(),
            revisions: BTreeMap::new(),
            api,
            graceful,
            refused: None,
            stubborn: 0,
            record: Record::default(),
            told: VecDeque::new(),
            queued: false,
            later: Vec::new(),
            clock: Duration::ZERO,
            uids: 0,
        }
    }

    /// A controller starts that knows nothing.
    pub fn start(&mut self) {
        self.machine = Machine::new(self.shape);
        self.told.clear();
        self.tell(|machine, serving, seen| machine.restore(serving, seen));
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Machine, &ModelServing, &Seen<'_>) -> Heard) {
        let Some(serving) = self.serving.clone() else { return };
        let mut machine = std::mem::take(&mut self.machine);
        let heard = tell(&mut machine, &serving, &self.seen(&serving));
        self.machine = machine;
        self.follow(heard);
    }

    pub fn queue(&mut self) {
        self.queued = true;
    }

    pub fn change_spec(&mut self, spec: Spec) {
        let Some(serving) = &mut self.serving else { return };
        let old = std::mem::replace(&mut serving.spec, spec);
        let generation = serving.metadata.generation.unwrap_or_default();
        serving.metadata.generation = Some(generation + 1);
        self.told.push_back(Told::SpecChanged(Box::new(old)));
    }

    pub fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.pods.get_mut(name) {
            change(pod);
            self.told.push_back(Told::PodChanged(name.to_owned()));
        }
    }

    pub fn pod_is_ready(&mut self, name: &str) {
        self.change_pod(name, |pod| {
            let ready =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            pod.status = serde_json::from_value(ready).unwrap();
        });
    }

    /// Somebody tells it to go.
    pub fn pod_leaves(&mut self, name: &str) {
        self.change_pod(name, |pod| {
            pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        });
    }

    /// Somebody else removes it, or its time is up.
    pub fn pod_goes(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            self.told.push_back(Told::PodGone(Box::new(pod)));
        }
    }

    pub fn service_goes(&mut self, name: &str) {
        if let Some(service) = self.services.remove(name) {
            self.told.push_back(Told::ServiceGone(service.metadata));
        }
    }

    pub fn pod_group_goes(&mut self, name: &str) {
        if let Some((metadata, _)) = self.pod_groups.remove(name) {
            self.told.push_back(Told::PodGroupGone(metadata));
        }
    }

    /// Events are heard, then plans are followed, until nothing is left to do. Says in how many rounds.
    pub fn settle(&mut self) -> usize {
        for round in 0..200 {
            while let Some(told) = self.told.pop_front() {
                self.hear(told);
            }
            if !self.queued {
                return round;
            }
            self.queued = false;
            self.reconcile();
        }
        panic!("it never settles");
    }

    pub fn wait(&mut self, time: Duration) {
        self.clock += time;
        let due: Vec<_> = self.later.extract_if(.., |it| it.0 <= self.clock).collect();
        for (_, what) in due {
            let Some(Later::GraceOver { pod, uid }) = what else {
                self.queued = true;
                continue;
            };
            let over = Event::GraceOver { pod: &pod, uid: &uid };
            self.tell(|machine, serving, seen| machine.hear(over, serving, seen));
        }
    }

    pub fn plan(&self) -> Plan {
        let Some(serving) = &self.serving else { return Plan::default() };
        self.machine.plan(serving, &self.seen(serving), &Plain, Timestamp::UNIX_EPOCH)
    }

    pub fn seen<'a>(&'a self, serving: &'a ModelServing) -> Seen<'a> {
        let mut seen = Seen::new(serving, self.shape, self.api);
        let ours = |metadata: &ObjectMeta| {
            let labels = metadata.labels.as_ref();
            labels.is_some_and(|it| it.get(naming::NAME) == serving.metadata.name.as_ref())
        };
        self.pods.values().filter(|pod| ours(&pod.metadata)).for_each(|pod| seen.pod(pod));
        let services = self.services.values().filter(|service| ours(&service.metadata));
        services.for_each(|service| seen.service(service));
        for (metadata, data) in self.pod_groups.values().filter(|it| ours(&it.0)) {
            seen.pod_group(metadata, data);
        }
        self.revisions.values().for_each(|revision| seen.revision(revision));
        seen
    }

    fn hear(&mut self, told: Told) {
        self.tell(|machine, serving, seen| {
            let event = match &told {
                Told::PodChanged(name) => {
                    let pod = seen.pods().iter().find(|pod| pod.thing.name == name);
                    let Some(pod) = pod else { return Heard::default() };
                    Event::PodChanged(*pod)
                }
                Told::PodGone(pod) => Event::PodGone(seen.read_pod(pod)),
                Told::ServiceGone(metadata) => Event::ServiceGone(metadata),
                Told::PodGroupGone(metadata) => Event::PodGroupGone(metadata),
                Told::SpecChanged(old) => Event::SpecChanged(old),
            };
            machine.hear(event, serving, seen)
        });
    }

    fn follow(&mut self, heard: Heard) {
        self.queued |= heard.reconcile;
        let later = heard.later.into_iter();
        self.later.extend(later.map(|(time, it)| (self.clock + time, Some(it))));
        self.steps(&heard.steps);
    }

    fn reconcile(&mut self) {
        let plan = self.plan();
        self.queued |= plan.again;
        self.later.extend(plan.later.map(|time| (self.clock + time, None)));
        if self.steps(&plan.steps) {
            self.record.errors.extend(plan.error);
        }
    }

    /// Whether the last step was reached.
    fn steps(&mut self, steps: &[Step]) -> bool {
        let reached = self.each(steps);
        if let Some(serving) = self.serving.clone() {
            let mut machine = std::mem::take(&mut self.machine);
            self.queued |= machine.sweep(&self.seen(&serving));
            self.machine = machine;
        }
        reached
    }

    fn each(&mut self, steps: &[Step]) -> bool {
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            at += 1;
            match step.write.clone().map_or(Ok(()), |write| self.write(write)) {
                Ok(()) => {
                    self.machine.done(step);
                    let notes = step.notes.iter();
                    let notes = notes.map(|it| format!("Normal {} {}", it.reason, it.message));
                    self.record.notes.extend(notes);
                }
                Err(error) => {
                    self.machine.failed(step);
                    self.record.errors.push(error);
                    match step.failure {
                        Failure::Stop => return false,
                        Failure::GoOnAt(next) => at = next,
                    }
                }
            }
        }
        true
    }

    fn write(&mut self, write: Write) -> Result<(), String> {
        match write {
            Write::Create(object) => self.create(object),
            Write::Update(object) => {
                // An API server lets nobody change what a revision keeps.
                let kept = self.revisions.get(&object.name).map(|known| json!(known.data));
                if object.kind == Kind::ControllerRevision
                    && kept != object.body.get("data").cloned()
                {
                    return Err(format!("the data of {} cannot be changed", object.name));
                }
                self.record.calls.push(format!("update {} {}", object.kind.name(), object.name));
                self.record.updates.push(object.body.clone());
                self.put(object.kind, object.name, object.body);
                Ok(())
            }
            Write::Delete { .. } | Write::DeletePods(_) if self.stubborn > 0 => {
                self.stubborn -= 1;
                // Whoever follows a plan makes another one after a failure.
                self.queued = true;
                Err("it cannot be deleted now".to_owned())
            }
            Write::Delete { kind, name, uid } => {
                self.delete(kind, &name, uid.as_deref());
                Ok(())
            }
            Write::DeletePods(labels) => {
                let has = |pod: &Pod| {
                    let own = pod.metadata.labels.clone().unwrap_or_default();
                    labels
                        .iter()
                        .all(|(key, value)| own.get(*key).is_some_and(|own| **own == **value))
                };
                let names: Vec<String> =
                    self.pods.iter().filter(|(_, pod)| has(pod)).map(|it| it.0.clone()).collect();
                // Recorded selectors do not name the ModelServing.
                let selector = labels.iter().filter(|(key, _)| **key != naming::NAME);
                let selector: Vec<String> =
                    selector.map(|(key, value)| format!("{key}={value}")).collect();
                let (selector, list) = (selector.join(","), names.join(","));
                self.record.calls.push(format!("deleteCollection Pod [{selector}] -> {list}"));
                for name in names {
                    self.record.deletes.push(format!("Pod {name}"));
                    self.delete_pod(&name);
                }
                Ok(())
            }
            Write::Status(status) => {
                if let Some(serving) = &mut self.serving {
                    serving.status = Some(*status);
                }
                Ok(())
            }
        }
    }

    fn create(&mut self, object: Object) -> Result<(), String> {
        let Object { kind, name, body } = object;
        let there = match kind {
            Kind::Pod => self.pods.contains_key(&name),
            Kind::Service => self.services.contains_key(&name),
            Kind::PodGroup => self.pod_groups.contains_key(&name),
            Kind::ControllerRevision => self.revisions.contains_key(&name),
        };
        if there {
            return Ok(());
        }
        if kind == Kind::Pod && self.refused.as_ref() == Some(&name) {
            self.record.calls.push(format!("create-failed Pod {name}"));
            return Err(format!("failed to create pod {name}"));
        }
        self.record.calls.push(format!("create {} {name}", kind.name()));
        self.record.creates.push(body.clone());
        self.put(kind, name, body);
        Ok(())
    }

    /// There is this object, whoever made it.
    pub fn put(&mut self, kind: Kind, name: String, mut body: Value) {
        self.uids += 1;
        if body["metadata"]["uid"].is_null() {
            body["metadata"]["uid"] = format!("uid-{}", self.uids).into();
        }
        match kind {
            Kind::Pod => {
                self.pods.insert(name.clone(), serde_json::from_value(body).unwrap());
                self.told.push_back(Told::PodChanged(name));
            }
            Kind::Service => {
                self.services.insert(name, serde_json::from_value(body).unwrap());
            }
            Kind::PodGroup => {
                let metadata = serde_json::from_value(body["metadata"].clone()).unwrap();
                let data = json!({"spec": body["spec"]});
                self.pod_groups.insert(name, (metadata, data));
            }
            Kind::ControllerRevision => {
                self.revisions.insert(name, serde_json::from_value(body).unwrap());
            }
        }
    }

    fn delete(&mut self, kind: Kind, name: &str, uid: Option<&str>) {
        let there = match kind {
            Kind::Pod => self.pods.get(name).map(|it| &it.metadata),
            Kind::Service => self.services.get(name).map(|it| &it.metadata),
            Kind::PodGroup => self.pod_groups.get(name).map(|it| &it.0),
            Kind::ControllerRevision => self.revisions.get(name).map(|it| &it.metadata),
        };
        if there.is_none_or(|it| uid.is_some() && it.uid.as_deref() != uid) {
            return;
        }
        self.record.calls.push(format!("delete {} {name}", kind.name()));
        self.record.deletes.push(format!("{} {name}", kind.name()));
        match kind {
            Kind::Pod => self.delete_pod(name),
            Kind::Service => self.service_goes(name),
            Kind::PodGroup => self.pod_group_goes(name),
            Kind::ControllerRevision => drop(self.revisions.remove(name)),
        }
    }

    fn delete_pod(&mut self, name: &str) {
        let phase = self.pods.get(name).and_then(|pod| pod.status.as_ref()?.phase.clone());
        if self.graceful && phase.as_deref() == Some("Running") {
            self.pod_leaves(name);
        } else {
            self.pod_goes(name);
        }
    }
}
