//! What a pod needs around it: its volumes, and the programs that stand for its containers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_objects::meta;
use serde_json::Value;

use super::super::containers::{Command, ContainerContext, Program, container_spec};
use super::super::lifecycle::{Blocked, Input, later, list, text};
use super::super::prepare::{Preparation, Prepared};
use super::super::volumes::{self, Object};
use super::super::{environment, names, node};
use super::{Engine, Event, Pod};

/// How soon a pod that could not be prepared is tried again.
const RETRY: Duration = Duration::from_secs(2);

impl Engine {
    /// The containers of a pod that are closures or processes.
    pub(super) fn outside(&self, object: &Value) -> Vec<String> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let all = list(spec, "initContainers").iter().chain(list(spec, "containers"));
        all.map(|c| text(c, "name"))
            .filter(|name| self.program(object, name).is_some())
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn program(&self, object: &Value, container: &str) -> Option<Program> {
        self.options.containers.find(object, container).or_else(|| {
            let wanted = meta::annotation(object, names::EXEC) == Some("true");
            let spec = container_spec(object, container)?;
            (wanted && self.options.allow_exec).then(|| Command::of(spec).map(Program::Process))?
        })
    }

    /// Starts writing the pod's volumes, or writing them again.
    pub(super) fn prepare(&mut self, uid: &str) {
        let now = self.clock.now();
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(node) = self.nodes.get(&pod.node) else { return };
        if pod.run.is_none() {
            return;
        }
        if pod.preparing {
            pod.prepare_again = true;
            return;
        }
        pod.preparing = true;
        let spec = &node.state.spec;
        let mut object = pod.object.clone();
        if object.pointer("/status/hostIP").is_none() {
            // Containers may ask for it before the API has it.
            let host = node::address(spec.index);
            meta::field(Arc::make_mut(&mut object), "status").insert("hostIP".into(), host.into());
        }
        let work = Preparation {
            pod: object,
            root: spec.root.clone(),
            files: spec.files,
            volumes: pod.volumes.clone(),
            outside: pod.outside.clone(),
            tokens: std::mem::take(&mut pod.tokens),
        };
        let (client, events, uid) = (self.client.clone(), self.events.clone(), uid.to_owned());
        let (requests, epoch) = (self.requests.clone(), pod.epoch);
        self.tasks.spawn(node.life.clone().run_until_cancelled_owned(async move {
            let _turn = requests.acquire_owned().await;
            let result = work.run(&client, now).await;
            // Nobody hears it when the kubelets stop.
            let _sent = events.send(Event::Prepared { uid, epoch, result });
        }));
    }

    pub(super) fn prepared(&mut self, uid: &str, result: Result<Prepared, Blocked>) {
        let now = self.clock.now();
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.preparing = false;
        let Some(run) = &pod.run else { return };
        let first = !run.prepared;
        let failed = result.is_err();
        let input = match result {
            Ok(done) => {
                pod.tokens = done.tokens;
                pod.env = done.env;
                match (first, run.ip.clone()) {
                    (false, _) => Input::Tick,
                    (true, Some(ip)) => Input::Prepared { ip },
                    (true, None) => match self.nodes.get_mut(&pod.node) {
                        Some(node) => Input::Prepared { ip: node.address() },
                        None => return,
                    },
                }
            }
            Err(blocked) if first => Input::Blocked(blocked),
            Err(_) => Input::Tick,
        };
        let follow = volumes::can_change(&pod.volumes)
            && self.nodes.get(&pod.node).is_some_and(|node| node.state.spec.files);
        let wait = match failed {
            true => Some(RETRY),
            false if follow && !self.options.sync.is_zero() => {
                Some(jittered(self.options.sync, uid, now))
            }
            false => None,
        };
        if let Some(wait) = wait {
            let at = later(now, wait);
            pod.sync_at = Some(at);
            self.times.push(Reverse((at, uid.to_owned())));
        }
        let again = std::mem::take(&mut pod.prepare_again);
        self.step(uid, input);
        if again {
            self.prepare(uid);
        }
    }

    /// A ConfigMap or Secret changed: the pods that use it follow.
    pub(super) fn changed(&mut self, namespace: &str, object: &Object) {
        let key = (namespace.to_owned(), object.clone());
        let Some(mut users) = self.users.remove(&key) else { return };
        users.retain(|uid| self.pods.contains_key(uid));
        for uid in &users {
            self.prepare(uid);
        }
        if !users.is_empty() {
            self.users.insert(key, users);
        }
    }

    /// The ConfigMaps and Secrets that a pod uses, in volumes and in the environment of containers that really run.
    fn needs(pod: &Pod) -> BTreeSet<Object> {
        let of_volumes = pod.volumes.iter().flat_map(|volume| volume.needs().0);
        let outside = pod.outside.iter().filter_map(|name| container_spec(&pod.object, name));
        of_volumes.chain(outside.flat_map(environment::needs)).collect()
    }

    /// Keeps a pod, under all that it uses.
    pub(super) fn keep(&mut self, uid: &str, pod: Pod) {
        let namespace = meta::namespace(&pod.object);
        for object in Self::needs(&pod) {
            let users = self.users.entry((namespace.to_owned(), object)).or_default();
            users.insert(uid.to_owned());
        }
        self.pods.insert(uid.to_owned(), pod);
    }

    /// Drops a pod from all that it uses.
    pub(super) fn unlist(&mut self, uid: &str, pod: &Pod) {
        let namespace = meta::namespace(&pod.object);
        for object in Self::needs(pod) {
            let key = (namespace.to_owned(), object);
            if let Some(users) = self.users.get_mut(&key) {
                users.remove(uid);
                if users.is_empty() {
                    self.users.remove(&key);
                }
            }
        }
    }

    pub(super) fn context(
        &self,
        uid: &str,
        pod: &Pod,
        container: &str,
    ) -> Option<ContainerContext> {
        let node = self.nodes.get(&pod.node)?;
        let spec = &node.state.spec;
        let (namespace, name) = (meta::namespace(&pod.object), meta::name(&pod.object));
        let directories: BTreeMap<String, _> = pod
            .volumes
            .iter()
            .filter(|_| spec.files)
            .map(|v| (v.name.clone(), v.directory(&spec.root, uid)))
            .collect();
        let mounts = container_spec(&pod.object, container)
            .map(|c| list(c, "volumeMounts"))
            .unwrap_or_default()
            .iter()
            .filter_map(|mount| {
                let at = directories.get(text(mount, "name"))?;
                // A pod with a path that leads out is not prepared, so nothing is left out here.
                let at = volumes::sub_path(at, text(mount, "subPath"))?;
                Some((text(mount, "mountPath").to_owned(), at))
            })
            .collect();
        let mut env = self.options.env.clone();
        env.insert("HOSTNAME".into(), name.to_owned());
        let mut devices = BTreeMap::new();
        let view = node.state.view.lock();
        for held in view.devices.held_by(uid).filter(|held| held.container == container) {
            devices.insert(held.resource.clone(), held.ids.clone());
            env.extend(view.devices.answer(&held.resource, &held.ids).envs);
        }
        drop(view);
        env.extend(pod.env.get(container).cloned().unwrap_or_default());
        Some(ContainerContext {
            pod: pod.object.clone(),
            container: container.to_owned(),
            node: pod.node.clone(),
            root: spec.root.clone(),
            volumes: directories,
            mounts,
            devices,
            env,
            stop: Default::default(),
            log: self.logs.sink(namespace, name, container, self.clock.clone()),
        })
    }
}

/// A kubelet looks at a pod again after its sync period and up to half as long again; by chance there, by the pod and the
/// moment here, so that a run can be repeated.
fn jittered(period: Duration, uid: &str, now: Timestamp) -> Duration {
    let mut hasher = DefaultHasher::new();
    (uid, now.as_nanosecond()).hash(&mut hasher);
    let part = (hasher.finish() % 1000) as f64 / 1000.0;
    period.mul_f64(1.0 + part / 2.0)
}
