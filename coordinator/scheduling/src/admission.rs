//! Queues, PodGroups, Topologies, and pods of our scheduler: what could never be placed is refused when it is written,
//! and pods that share a device get what is filled in later.
//!
//! ```text
//!   Queue ──▶ its parents, its children        PodGroup ──▶ its queue        Topology, Pod ──▶ nothing else
//! ```
//!
//! What cannot be read because the API server has trouble is not held against anybody. Paths are those of KAI.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use kube::Client;
use kube::api::{DynamicObject, ListParams};
use kube::core::admission::Operation;
use muster_podgrouper::admission::pod::Sharing;
use muster_podgrouper::admission::strict::Strict;
use muster_podgrouper::admission::{Refused, device, pod_group, queue, topology, visible_devices};
use muster_podgrouper::{Key, Object, Objects, Refusal};
use serde_json::{Value, json};

use crate::bootstrap::queues;
use crate::grouper::cache::{Held, Limits, Want};
use crate::grouper::{Metrics, reader::Reader};
use muster_serving::webhook::{Answer, Request};

/// Where the API server asks about queues.
pub const QUEUES: &str = "/validate-scheduling-run-ai-v2-queue";
/// Where it asks about PodGroups.
pub const POD_GROUPS: &str = "/validate-scheduling-run-ai-v2alpha2-podgroup";
/// Where it asks about Topologies.
pub const TOPOLOGIES: &str = "/validate-kai-scheduler-v1alpha1-topology";
/// Where it asks what a pod that shares a device gets.
pub const MUTATE_PODS: &str = "/mutate--v1-pod";
/// Where it asks what containers may see.
pub const VISIBLE_DEVICES: &str = "/mutate-visible-devices";
/// Where it asks about pods.
pub const PODS: &str = "/validate--v1-pod";

const QUEUE_API: &str = "scheduling.run.ai/v2";
/// More queues above each other than anybody has.
const HIGHEST: usize = 32;
/// More queues beside each other are not compared.
const MOST_CHILDREN: usize = 256;
/// In one answer of a list.
const PAGE: u32 = 500;

/// What is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Beyond what KAI refuses.
    pub strict: Strict,
    /// Pods that share a device.
    pub sharing: Sharing,
    /// Whether quotas of queues are compared with those above and below. They are only warned of.
    pub quotas: bool,
    /// Whether containers are kept from choosing devices by `NVIDIA_VISIBLE_DEVICES`.
    pub block_visible_devices: bool,
    /// Whether pods are neither changed nor refused, whatever the rest says.
    pub ignore_pods: bool,
}

/// Answers. Copies share what they have read.
#[derive(Clone)]
pub struct Scheduling {
    client: Client,
    reader: Reader,
    rules: Arc<Rules>,
}

/// Queues that were read.
#[derive(Default)]
struct Known(BTreeMap<String, Result<Arc<Object>, Refusal>>);

// === impl Rules ===

impl Rules {
    /// As KAI has them.
    pub fn of_kai() -> Self {
        Self { strict: Strict::OFF, ..Self::default() }
    }

    /// For pods that name one of these schedulers.
    #[must_use]
    pub fn for_schedulers(mut self, names: Vec<String>) -> Self {
        self.sharing.scheduler_names = names;
        self
    }

    /// What is said to a Topology.
    pub fn topology(request: &Request) -> Answer {
        match asked(request) {
            Some(object) => answer(topology::check(&object).map(|()| Vec::new())),
            None => Answer::allow(),
        }
    }

    /// What a new pod gets.
    pub fn mutate_pod(&self, request: &Request) -> Answer {
        let Some(pod) = asked(request).filter(|_| request.operation == Operation::Create) else {
            return Answer::allow();
        };
        if self.ignore_pods || !device::is_shared(&pod) {
            return Answer::allow();
        }
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let key = unique.get(..7).unwrap_or(&unique);
        match self.sharing.mutate(&pod, namespace, key) {
            Ok(changed) => {
                let patch = json_patch::diff(pod.raw(), &changed);
                match patch.0.is_empty() {
                    true => Answer::allow(),
                    false => Answer::Patch { patch, warnings: Vec::new() },
                }
            }
            Err(refused) => answer(Err(refused)),
        }
    }

    /// What containers of a new pod may see.
    pub fn visible_devices(&self, request: &Request) -> Answer {
        let asked = asked(request).filter(|_| request.operation == Operation::Create);
        let Some(pod) = asked.filter(|pod| self.block_visible_devices && self.sharing.is_ours(pod))
        else {
            return Answer::allow();
        };
        match visible_devices::hide(&pod) {
            Ok(hidden) => {
                let patch = json_patch::diff(pod.raw(), &hidden);
                match patch.0.is_empty() {
                    true => Answer::allow(),
                    false => Answer::Patch { patch, warnings: Vec::new() },
                }
            }
            Err(refused) => answer(Err(refused)),
        }
    }

    /// What is said to a pod.
    pub fn pod(&self, request: &Request) -> Answer {
        let ours = asked(request).filter(|pod| !self.ignore_pods && self.sharing.is_ours(pod));
        let Some(pod) = ours else { return Answer::allow() };
        // What was taken once may be changed elsewhere.
        let old = request.old_object.as_ref();
        if old.is_some_and(|old| {
            old.metadata.annotations.clone().unwrap_or_default() == pod.annotations()
        }) {
            return Answer::allow();
        }
        answer(self.strict.pod(&pod).and_then(|()| self.sharing.check(&pod)).map(|()| Vec::new()))
    }
}

// === impl Scheduling ===

impl Scheduling {
    /// By these rules.
    pub fn new(client: Client, rules: Rules) -> Self {
        let reader = Reader::new(client.clone(), Limits::default(), Metrics::default());
        Self { client, reader, rules: Arc::new(rules) }
    }

    /// The rules.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.clone()
    }

    /// What is said to a queue.
    pub async fn queue(self, request: Request) -> Answer {
        if request.operation == Operation::Delete {
            let old = request.old_object.as_ref().filter(|_| is_whole(&request)).map(object);
            return match old.filter(|_| self.rules.strict.kept_parents) {
                Some(queue) => self.delete(queue).await,
                None => Answer::allow(),
            };
        }
        let Some(queue) = asked(&request) else { return Answer::allow() };
        let old = request.old_object.as_ref().map(object);
        let mut known = Known::default();
        let is_compared = self.rules.strict.known_queues || self.rules.quotas;
        let mut next = parent(&queue).filter(|_| is_compared);
        while let Some(name) = next.filter(|_| known.0.len() < HIGHEST) {
            if known.0.contains_key(&name) {
                break;
            }
            let found = self.find(&name, false).await;
            next = found.as_ref().ok().and_then(|above| parent(above));
            known.0.insert(name, found);
        }
        if self.rules.quotas {
            let above = parent(&queue).and_then(|name| known.0.get(&name)?.clone().ok());
            let beside = above.iter().map(AsRef::as_ref).chain(&old).flat_map(children);
            for name in beside.take(MOST_CHILDREN).collect::<Vec<_>>() {
                if let Entry::Vacant(place) = known.0.entry(name) {
                    let found = self.find(place.key(), true).await;
                    place.insert(found);
                }
            }
        }
        let checked = queue::check(&queue, old.as_ref(), &known, self.rules.quotas);
        let strict = |mut warnings: Vec<String>| {
            warnings.extend(self.rules.strict.queue(&queue, &known)?);
            Ok(warnings)
        };
        answer(checked.and_then(strict))
    }

    async fn delete(&self, queue: Object) -> Answer {
        let mut raw = queue.raw().clone();
        // The status may be late.
        match self.below(queue.name()).await {
            Ok(children) => raw["status"]["childQueues"] = json!(children),
            Err(error) => tracing::warn!("queues cannot be listed: {error}"),
        }
        answer(queue::check_delete(&Object::new(raw)).map(|()| Vec::new()))
    }

    /// The queues right below one.
    async fn below(&self, name: &str) -> kube::Result<Vec<String>> {
        let (api, mut params) = (queues(&self.client), ListParams::default().limit(PAGE));
        let mut children = Vec::new();
        loop {
            let page = api.list(&params).await?;
            let mine = |queue: &&DynamicObject| queue.data["spec"]["parentQueue"] == name;
            let named = page.items.iter().filter(mine).filter_map(|q| q.metadata.name.clone());
            children.extend(named);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(children),
            }
        }
    }

    /// What is said to a PodGroup.
    pub async fn pod_group(self, request: Request) -> Answer {
        let Some(group) = asked(&request) else { return Answer::allow() };
        let old = request.old_object.as_ref().map(object);
        let mut known = Known::default();
        let queue = group.raw().pointer("/spec/queue").and_then(Value::as_str);
        if let Some(name) = queue.filter(|name| !name.is_empty() && self.rules.strict.known_queues)
        {
            known.0.insert(name.to_owned(), self.find(name, true).await);
        }
        let missing = self.missing_class(&group).await;
        let judged = match self.rules.strict.counted_parts {
            true => pod_group::check(&group, old.is_some()),
            false => pod_group::check_leniently(&group, old.is_some()),
        };
        let checked = judged.map(|mut warnings| {
            warnings.extend(missing);
            warnings
        });
        let strict =
            |warnings| self.rules.strict.pod_group(&group, old.as_ref(), &known).map(|()| warnings);
        answer(checked.and_then(strict))
    }

    /// What is said to a PodGroup whose priority class does not exist. It is taken all the same: the class may come.
    async fn missing_class(&self, group: &Object) -> Option<String> {
        let class = group.raw().pointer("/spec/priorityClassName").and_then(Value::as_str);
        let class = class.filter(|class| !class.is_empty())?;
        let key = Key::new("scheduling.k8s.io/v1", "PriorityClass", "", class);
        match self.read(Want::Object(key), true).await {
            Err(Refusal::Absent) => Some(format!(
                "{}: spec.priorityClassName: there is no PriorityClass {class}, and the default counts until there is; create it, or \
                 name another",
                group.shown()
            )),
            _ => None,
        }
    }

    /// A queue. That it was there a moment ago is enough if `recent` is; that it was not, never is.
    async fn find(&self, name: &str, recent: bool) -> Result<Arc<Object>, Refusal> {
        self.read(Want::Object(Key::new(QUEUE_API, "Queue", "", name)), recent).await
    }

    async fn read(&self, want: Want, recent: bool) -> Result<Arc<Object>, Refusal> {
        if recent {
            let now = tokio::time::Instant::now();
            let cache = self.reader.cache().lock();
            if let Some((Held::Object(object), _)) = cache.get(&want, now) {
                return Ok(object.clone());
            }
        }
        match self.reader.read(want).await {
            Ok(Held::Object(object)) => Ok(object),
            Ok(Held::Refused(refusal)) => Err(refusal),
            Ok(_) => Err(Refusal::Unread),
            Err(error) => {
                tracing::warn!("an object is taken for granted: {error}");
                Err(Refusal::Unread)
            }
        }
    }
}

// === impl Known ===

impl Objects for Known {
    fn get(&self, key: &Key) -> Result<Arc<Object>, Refusal> {
        self.0.get(&key.name).cloned().unwrap_or(Err(Refusal::Unread))
    }

    fn pods(&self, _: &str, _: &[(&str, &str)]) -> Result<Vec<Arc<Object>>, Refusal> {
        Err(Refusal::Unread)
    }

    fn pod_groups(&self, _: &str, _: &str) -> Result<Vec<Arc<Object>>, Refusal> {
        Err(Refusal::Unread)
    }
}

/// What is to be looked at: what is created or changed and is not on its way out.
fn asked(request: &Request) -> Option<Object> {
    let asked = matches!(request.operation, Operation::Create | Operation::Update);
    let found = request.object.as_ref().filter(|_| asked && is_whole(request))?;
    // Whoever removes a finalizer from what is to go must succeed, however wrong the object is.
    found.metadata.deletion_timestamp.is_none().then(|| object(found))
}

fn is_whole(request: &Request) -> bool {
    request.sub_resource.as_ref().is_none_or(String::is_empty)
}

fn object(object: &DynamicObject) -> Object {
    Object::new(serde_json::to_value(object).unwrap_or_default())
}

fn parent(queue: &Object) -> Option<String> {
    let parent = queue.raw().pointer("/spec/parentQueue").and_then(Value::as_str);
    parent.filter(|parent| !parent.is_empty()).map(str::to_owned)
}

fn children(queue: &Object) -> Vec<String> {
    let children = queue.raw().pointer("/status/childQueues").and_then(Value::as_array);
    children.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn answer(checked: Result<Vec<String>, Refused>) -> Answer {
    match checked {
        Ok(warnings) => Answer::Allow { warnings },
        Err(refused) => Answer::Deny { code: 403, message: refused.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_serving::webhook::configure;

    const SHIPPED: &str = include_str!("../../../deploy/coordinator/webhook-scheduler.yaml");
    const MUTATING: &str = "MutatingWebhookConfiguration";
    const VALIDATING: &str = "ValidatingWebhookConfiguration";

    fn request(operation: &str, annotations: &Value, old: &Value) -> Request {
        let pod = |annotations: &Value| {
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "namespace": "ns", "annotations": annotations},
                "spec": {"schedulerName": "muster-scheduler", "containers": [{"name": "c"}]}})
        };
        let old = if old.is_null() { Value::Null } else { pod(old) };
        serde_json::from_value(json!({
            "uid": "u1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": operation, "userInfo": {}, "namespace": "ns", "name": "p",
            "object": pod(annotations), "oldObject": old,
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_is_judged_when_its_annotations_change() {
        let (rules, wrong, none) = (Rules::default(), json!({"gpu-fraction": "2"}), Value::Null);
        let denied = |answer: Answer| matches!(answer, Answer::Deny { code: 403, .. });
        assert!(denied(rules.pod(&request("CREATE", &wrong, &none))));
        assert!(denied(rules.pod(&request("UPDATE", &wrong, &json!({})))));
        assert_eq!(rules.pod(&request("UPDATE", &wrong, &wrong)), Answer::allow());
        let elsewhere = json!({"pod-group-name": "other/g"});
        assert!(denied(rules.pod(&request("CREATE", &elsewhere, &none))));
        assert_eq!(Rules::of_kai().pod(&request("CREATE", &elsewhere, &none)), Answer::allow());
    }

    #[test]
    fn pods_of_every_scheduler_name_are_judged_and_dressed_and_no_others() {
        let (none, half) = (Value::Null, json!({"gpu-fraction": "0.5"}));
        let rules = Rules::default().for_schedulers(vec!["other".into(), "kai-scheduler".into()]);
        let mut asked = request("CREATE", &half, &none);
        assert_eq!(rules.mutate_pod(&asked), Answer::allow(), "muster-scheduler is none of them");
        asked.object.as_mut().unwrap().data["spec"]["schedulerName"] = "kai-scheduler".into();
        assert!(matches!(rules.mutate_pod(&asked), Answer::Patch { .. }));
        let mut wrong = request("CREATE", &json!({"pod-group-name": "other/g"}), &none);
        assert_eq!(rules.pod(&wrong), Answer::allow(), "it is another's");
        wrong.object.as_mut().unwrap().data["spec"]["schedulerName"] = "kai-scheduler".into();
        assert!(matches!(rules.pod(&wrong), Answer::Deny { .. }));
    }

    #[test]
    fn pods_are_neither_changed_nor_refused_while_admission_is_off() {
        let rules = Rules { ignore_pods: true, ..Rules::default() };
        let shares = request("CREATE", &json!({"gpu-fraction": "0.5"}), &Value::Null);
        assert_eq!(rules.mutate_pod(&shares), Answer::allow());
        let wrong = request("CREATE", &json!({"pod-group-name": "other/g"}), &Value::Null);
        assert_eq!(rules.pod(&wrong), Answer::allow());
    }

    #[test]
    fn a_pod_is_dressed_once_and_only_if_it_shares() {
        let rules = Rules::default();
        let plain = request("CREATE", &json!({"a": "b"}), &Value::Null);
        assert_eq!(rules.mutate_pod(&plain), Answer::allow());
        let mut shares = request("CREATE", &json!({"gpu-memory": "2048"}), &Value::Null);
        let Answer::Patch { patch, .. } = rules.mutate_pod(&shares) else { panic!("as it was") };
        let mut pod = serde_json::to_value(shares.object.take()).unwrap();
        json_patch::patch(&mut pod, &patch).unwrap();
        assert_eq!(pod["spec"]["runtimeClassName"], "nvidia");
        shares.object = serde_json::from_value(pod).unwrap();
        assert_eq!(rules.mutate_pod(&shares), Answer::allow(), "nothing is added twice");
    }

    #[test]
    fn the_shipped_configurations_ask_here() {
        let documents: Vec<Value> = serde_saphyr::from_multiple(SHIPPED).unwrap();
        let found: Vec<_> = documents
            .iter()
            .flat_map(|document| {
                let webhooks = document["webhooks"].as_array().unwrap();
                webhooks.iter().map(|webhook| (document["kind"].clone(), webhook))
            })
            .collect();
        let expected = [
            (MUTATING, MUTATE_PODS, "pods", json!(["CREATE"])),
            (MUTATING, VISIBLE_DEVICES, "pods", json!(["CREATE"])),
            (VALIDATING, QUEUES, "queues", json!(["CREATE", "UPDATE", "DELETE"])),
            (VALIDATING, POD_GROUPS, "podgroups", json!(["CREATE", "UPDATE"])),
            (VALIDATING, TOPOLOGIES, "topologies", json!(["CREATE", "UPDATE"])),
            (VALIDATING, PODS, "pods", json!(["CREATE", "UPDATE"])),
        ];
        assert_eq!(found.len(), expected.len());
        for ((kind, webhook), (expected, path, resource, operations)) in found.iter().zip(expected)
        {
            assert_eq!(
                (kind, &webhook["clientConfig"]["service"]["path"]),
                (&json!(expected), &json!(path))
            );
            assert_eq!(webhook["rules"][0]["resources"], json!([resource]));
            assert_eq!(webhook["rules"][0]["operations"], operations);
            assert_eq!(webhook["failurePolicy"], "Fail");
            let expression = &webhook["matchConditions"][0]["expression"];
            let ours = configure::ours(&Sharing::default().scheduler_names);
            assert_eq!(*expression == ours, resource == "pods", "{path}");
        }
        let marked = |document: &Value| {
            document["metadata"]["annotations"][muster_serving::names::INJECT_CA] == "true"
        };
        assert!(documents.iter().all(marked));
    }
}
