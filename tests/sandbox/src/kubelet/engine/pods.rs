//! How the engine drives one pod.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use muster_objects::meta;
use serde_json::Value;

use super::super::lifecycle::{Effect, Input, PodPlan, PodRun, list, status, text};
use super::super::podresources::PodView;
use super::super::post::{self, PostOutcome};
use super::super::prepare::Tokens;
use super::super::{node, volumes};
use super::nodes::last_byte;
use super::{Engine, Event, Pod};

impl Engine {
    /// A bound pod is new or changed.
    pub(super) fn applied(&mut self, object: Value) {
        let uid = meta::uid(&object).to_owned();
        let name = object.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        let name = name.to_owned();
        let Some(node) = self.nodes.get_mut(&name) else { return };
        if let Some(aside) = &mut node.aside {
            aside.push(object);
            return;
        }
        if !node.state.up.load(Ordering::Relaxed) {
            return;
        }
        let object = Arc::new(object);
        match self.pods.get_mut(&uid) {
            Some(pod) => {
                let facts = |o: &Value| {
                    o.get("metadata")
                        .map(|m| (m.get("labels").cloned(), m.get("annotations").cloned()))
                };
                let facts_changed = facts(&pod.object) != facts(&object);
                pod.object = object.clone();
                if facts_changed && volumes::can_change(&pod.volumes) {
                    self.prepare(&uid);
                }
            }
            None => self.take(&uid, &name, object.clone()),
        }
        let Some(pod) = self.pods.get(&uid) else { return };
        let phase = phase_of(&object);
        let ended_by_others = is_final(phase) && !is_final(text(&pod.sent, "phase"));
        let input = if meta::is_terminating(&object) {
            let grace =
                object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64);
            Input::End { grace: Duration::from_secs(grace.unwrap_or(30)), failure: None }
        } else if ended_by_others {
            Input::End { grace: pod.plan.grace, failure: None }
        } else {
            Input::Tick
        };
        if ended_by_others && let Some(pod) = self.pods.get_mut(&uid) {
            meta::as_map(&mut pod.sent).insert("phase".into(), phase.into());
        }
        self.step(&uid, input);
    }

    /// Takes a pod that this kubelet does not know: a new one, or one from before a restart.
    fn take(&mut self, uid: &str, name: &str, object: Arc<Value>) {
        let now = self.clock.now();
        let outside = self.outside(&object);
        let plan = PodPlan::read(&object, |container| outside.iter().any(|o| o == container))
            .without_images(&object, |image| self.options.missing_images.contains(image));
        let known = |container: &str| {
            let key = (uid.to_owned(), container.to_owned());
            self.running.contains_key(&key) || self.unseen.contains_key(&key)
        };
        let resumed = PodRun::resume(&object, &plan, known, now);
        let live_status = object.get("status").cloned().unwrap_or_default();
        let finished = is_final(phase_of(&object));
        let mut pod = Pod {
            epoch: self.next_epoch(),
            node: name.to_owned(),
            volumes: Arc::new(volumes::plan(&object)),
            plan,
            run: None,
            outside,
            tokens: Tokens::new(),
            env: BTreeMap::new(),
            preparing: false,
            prepare_again: false,
            sync_at: None,
            // What an earlier kubelet wrote is what was last sent; a pod nobody took has nothing.
            sent: if resumed.is_some() { live_status } else { Value::Null },
            sending: false,
            deleting: false,
            object: object.clone(),
        };
        if finished {
            // Nothing of it runs; it is here only to be deleted one day.
            pod.sent = object.get("status").cloned().unwrap_or_default();
            self.keep(uid, pod);
            return;
        }
        match self.admit(name, &object) {
            Ok(()) => {
                let run = resumed.unwrap_or_else(|| PodRun::new(&pod.plan, now));
                if let (Some(ip), Some(node)) = (&run.ip, self.nodes.get_mut(name)) {
                    node.addresses.extend(last_byte(ip));
                }
                pod.run = Some(run);
                self.keep(uid, pod);
                self.prepare(uid);
                let ends: Vec<_> = self.unseen.keys().filter(|(u, _)| u == uid).cloned().collect();
                for key in ends {
                    if let Some((attempt, code)) = self.unseen.remove(&key) {
                        self.step(uid, Input::Exited { container: key.1, attempt, code });
                    }
                }
            }
            Err((reason, message)) => {
                let refused = status::refused(&object, &reason, &message, now);
                self.keep(uid, pod);
                self.send(uid, refused);
            }
        }
    }

    /// Gives the pod its place and its devices, or says why not.
    fn admit(&mut self, name: &str, object: &Value) -> Result<(), (String, String)> {
        let Some(node) = self.nodes.get_mut(name) else { return Ok(()) };
        let mut view = node.state.view.lock();
        let limit = node.state.spec.profile.capacity();
        let limit = limit.iter().find(|(resource, _)| *resource == "pods");
        let limit: usize = limit.and_then(|(_, amount)| amount.parse().ok()).unwrap_or(usize::MAX);
        let used = view.pods.len();
        if used >= limit {
            let message = format!(
                "Node didn't have enough resource: pods, requested: 1, used: {used}, capacity: {limit}"
            );
            return Err(("OutOfpods".into(), message));
        }
        let before = view.devices.held().len();
        if let Err(shortage) = view.devices.allocate(object) {
            return Err(("UnexpectedAdmissionError".into(), shortage.to_string()));
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let sidecars = list(spec, "initContainers").iter();
        let sidecars = sidecars.filter(|c| text(c, "restartPolicy") == "Always");
        let shown = sidecars.chain(list(spec, "containers"));
        let shown = PodView {
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
            containers: shown.map(|c| text(c, "name").to_owned()).collect(),
        };
        view.pods.insert(meta::uid(object).to_owned(), shown);
        let changed = view.devices.held().len() != before;
        drop(view);
        if changed && let Err(error) = node.save() {
            tracing::warn!(node = name, %error, "checkpoint");
        }
        Ok(())
    }

    /// Takes in what happened to the pod and does what follows from it.
    pub(super) fn step(&mut self, uid: &str, input: Input) {
        let now = self.clock.now();
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(run) = &mut pod.run else {
            self.finish(uid);
            return;
        };
        let effects = run.step(&pod.plan, input, now);
        if let Some(at) = run.next_time(&pod.plan) {
            self.times.push(Reverse((at, uid.to_owned())));
        }
        for effect in effects {
            self.apply(uid, effect);
        }
        self.publish(uid);
        self.finish(uid);
    }

    fn apply(&mut self, uid: &str, effect: Effect) {
        let Some(pod) = self.pods.get(uid) else { return };
        let (namespace, name) = (meta::namespace(&pod.object), meta::name(&pod.object));
        match effect {
            Effect::Log { container, line } => {
                self.logs.sink(namespace, name, &container, self.clock.clone()).line(line);
            }
            Effect::Stop { container, kill_at } => {
                if let Some(started) = self.running.get(&(uid.to_owned(), container)) {
                    started.stop(kill_at);
                }
            }
            Effect::Start { container, attempt } => {
                let Some(program) = self.program(&pod.object, &container) else { return };
                let Some(context) = self.context(uid, pod, &container) else { return };
                let (events, key) = (self.events.clone(), (uid.to_owned(), container));
                let (uid, container) = key.clone();
                let started = program.start(context, self.clock.clone(), move |code| {
                    // Nobody hears it when the kubelets stop.
                    let _sent = events.send(Event::Exited { uid, container, attempt, code });
                });
                self.running.insert(key, started);
            }
        }
    }

    /// Sends the pod's status when it is another than the one last sent.
    fn publish(&mut self, uid: &str) {
        let now = self.clock.now();
        let Some(pod) = self.pods.get(uid) else { return };
        let (Some(run), Some(node), false) = (&pod.run, self.nodes.get(&pod.node), pod.sending)
        else {
            return;
        };
        let host = node::address(node.state.spec.index);
        let next = status::write(&pod.object, &pod.plan, run, &host, &pod.sent, now);
        if without_nulls(&next) != pod.sent {
            self.send(uid, next);
        }
    }

    fn send(&mut self, uid: &str, status: Value) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(node) = self.nodes.get(&pod.node) else { return };
        pod.sending = true;
        pod.sent = without_nulls(&status);
        let (client, events) = (self.client.clone(), self.events.clone());
        let (object, uid, requests) = (pod.object.clone(), uid.to_owned(), self.requests.clone());
        let epoch = pod.epoch;
        self.tasks.spawn(node.life.clone().run_until_cancelled_owned(async move {
            let outcome = post::status(client, &requests, &object, &status).await;
            // Nobody hears it when the kubelets stop.
            let _sent = events.send(Event::Wrote { uid, epoch, outcome });
        }));
    }

    pub(super) fn wrote(&mut self, uid: &str, outcome: PostOutcome) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.sending = false;
        match outcome {
            PostOutcome::Done => {
                self.publish(uid);
                self.finish(uid);
            }
            PostOutcome::Gone => self.forget(uid),
        }
    }

    /// When all has ended: gives the devices back, and removes a pod that is being deleted.
    fn finish(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.run.as_ref().is_some_and(|run| !run.is_finished(&pod.plan)) {
            return;
        }
        let going = meta::is_terminating(&pod.object) && !pod.sending && !pod.deleting;
        if going && let Some(node) = self.nodes.get(&pod.node) {
            pod.deleting = true;
            let (client, object) = (self.client.clone(), pod.object.clone());
            let requests = self.requests.clone();
            self.tasks.spawn(node.life.clone().run_until_cancelled_owned(async move {
                post::delete(client, &requests, &object).await;
            }));
        }
        self.release(uid);
    }

    /// Gives back what the pod held.
    fn release(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(node) = self.nodes.get_mut(&pod.node) else { return };
        let freed = {
            let mut view = node.state.view.lock();
            view.pods.remove(uid);
            view.devices.free(uid)
        };
        if freed && let Err(error) = node.save() {
            tracing::warn!(node = pod.node, %error, "checkpoint");
        }
    }

    /// The pod is gone from the API: so is all that the node had of it.
    pub(super) fn forget(&mut self, uid: &str) {
        self.release(uid);
        self.unseen.retain(|(pod, _), _| pod != uid);
        let now = self.clock.now();
        let still: Vec<_> = self.running.keys().filter(|(pod, _)| pod == uid).cloned().collect();
        for key in still {
            if let Some(started) = self.running.remove(&key) {
                started.stop(now);
            }
        }
        let Some(pod) = self.pods.remove(uid) else { return };
        self.unlist(uid, &pod);
        let (namespace, name) = (meta::namespace(&pod.object), meta::name(&pod.object));
        let replaced = self.pods.values().any(|other| {
            meta::name(&other.object) == name && meta::namespace(&other.object) == namespace
        });
        if !replaced {
            self.logs.forget(namespace, name);
        }
        let Some(node) = self.nodes.get_mut(&pod.node) else { return };
        if let Some(ip) = pod.run.as_ref().and_then(|run| run.ip.as_deref()).and_then(last_byte) {
            node.addresses.remove(&ip);
        }
        if node.state.spec.files && volumes::is_safe(&pod.object, &pod.volumes) {
            let directory = volumes::pod_directory(&node.state.spec.root, uid);
            self.tasks.spawn_blocking(move || {
                if let Err(error) = volumes::writer::clear(&directory) {
                    tracing::warn!(directory = %directory.display(), %error, "volumes stay");
                }
            });
        }
    }

    /// Forgets the pods that are not among these; of one node, or of all.
    pub(super) fn keep_only(&mut self, uids: &HashSet<String>, node: Option<&str>) {
        let gone: Vec<String> = self
            .pods
            .iter()
            .filter(|(uid, pod)| !uids.contains(*uid) && node.is_none_or(|n| n == pod.node))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            self.forget(&uid);
        }
    }
}

fn phase_of(object: &Value) -> &str {
    object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default()
}

fn is_final(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// The status as the API has it after the merge: fields set to null are gone.
fn without_nulls(status: &Value) -> Value {
    match status {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
