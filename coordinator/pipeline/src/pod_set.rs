//! The pods of one replicated job: how many, where they are reached, and their template as JSON.

use muster_api::names::{ANCESTOR, NODE};
use serde_json::{Map, Value, json};

use crate::resources::Resources;
use crate::upsert;

/// The two kinds of containers.
const KINDS: [&str; 2] = ["containers", "initContainers"];

/// The pods of one replicated job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSet {
    /// The replicated job.
    pub name: String,
    /// The step of the TrainJob that it is.
    pub ancestor: Option<String>,
    /// How many pods each of its Jobs has.
    pub count: i32,
    /// Where they are reached, once the stage PodNetwork has found out.
    pub endpoints: Endpoints,
    /// What one pod asks for. It is counted where somebody wants to know.
    pub requests: Resources,
    /// The replicated job, as JSON.
    pub job: Map<String, Value>,
    /// How many ports each container and init container had, to begin with.
    ports: [Vec<usize>; 2],
}

/// Where the pods of a job are reached. They are counted, not listed: there may be very many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// What their names begin with: `<job>-<replicated job>`.
    pub prefix: String,
    /// Domain of the endpoints' names.
    pub domain: String,
    /// How many Jobs.
    pub jobs: i32,
    /// How many pods each has.
    pub pods: i32,
}

// === impl Endpoints ===

impl Endpoints {
    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        let all = (0..self.jobs).flat_map(|job| (0..self.pods).map(move |pod| (job, pod)));
        all.map(|(job, pod)| format!("{}-{job}-{pod}.{}", self.prefix, self.domain))
    }
}

// === impl PodSet ===

impl PodSet {
    /// Of a replicated job.
    pub fn new(job: Map<String, Value>) -> Self {
        let name = job.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ancestor = labels_of(&job).and_then(|labels| labels.get(ANCESTOR));
        let ancestor = ancestor.and_then(Value::as_str).map(str::to_owned);
        let mut pods = Self { name, ancestor, job, ..Self::default() };
        let ports = |container: &Value| container["ports"].as_array().map_or(0, Vec::len);
        pods.ports = KINDS.map(|kind| pods.list(kind).iter().map(ports).collect());
        let parallelism = pods.job_spec().and_then(|spec| spec.get("parallelism"));
        pods.count = parallelism.and_then(Value::as_i64).map_or(1, saturated);
        pods
    }

    /// Whether it is this step.
    pub fn is(&self, ancestor: &str) -> bool {
        self.ancestor.as_deref() == Some(ancestor)
    }

    /// How many Jobs.
    pub fn replicas(&self) -> i32 {
        self.job.get("replicas").and_then(Value::as_i64).map_or(1, saturated)
    }

    /// The spec of its Jobs.
    pub fn job_spec(&self) -> Option<&Map<String, Value>> {
        self.job.get("template")?.get("spec")?.as_object()
    }

    /// The spec of its Jobs, made where there is none.
    pub fn job_spec_mut(&mut self) -> &mut Map<String, Value> {
        object(object(&mut self.job, "template"), "spec")
    }

    /// The template of its pods, made where there is none.
    pub fn pod_template_mut(&mut self) -> &mut Map<String, Value> {
        object(self.job_spec_mut(), "template")
    }

    /// The spec of its pods.
    pub fn pod_spec(&self) -> Option<&Map<String, Value>> {
        self.job_spec()?.get("template")?.get("spec")?.as_object()
    }

    /// The spec of its pods, made where there is none.
    pub fn pod_spec_mut(&mut self) -> &mut Map<String, Value> {
        object(self.pod_template_mut(), "spec")
    }

    /// The containers of the pod template.
    pub fn containers(&self) -> &[Value] {
        self.list("containers")
    }

    /// The init containers of the pod template.
    pub fn init_containers(&self) -> &[Value] {
        self.list("initContainers")
    }

    /// The container of this name.
    pub fn container(&self, name: &str) -> Option<&Value> {
        self.containers().iter().find(|container| called(container, name))
    }

    /// The first container of this name.
    pub fn container_mut(&mut self, name: &str) -> Option<&mut Map<String, Value>> {
        find(self.pod_spec_mut(), "containers", name)
    }

    /// The container that trains.
    pub fn node_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.container_mut(NODE)
    }

    /// A container or, if there is none of the name, an init container.
    pub fn any_container_mut(&mut self, name: &str) -> Option<&mut Map<String, Value>> {
        let spec = self.pod_spec_mut();
        let key = match find(spec, "containers", name) {
            Some(_) => "containers",
            None => "initContainers",
        };
        find(spec, key, name)
    }

    /// The containers, to be changed.
    pub fn containers_mut(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        let containers = self.pod_spec_mut().get_mut("containers").and_then(Value::as_array_mut);
        containers.into_iter().flatten().filter_map(Value::as_object_mut)
    }

    /// Puts labels and annotations on its pods.
    pub fn mark<'a>(
        &mut self,
        key: &str,
        marks: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) {
        let mut marks = marks.into_iter().peekable();
        if marks.peek().is_none() {
            return;
        }
        let into = object(object(self.pod_template_mut(), "metadata"), key);
        into.extend(marks.map(|(key, value)| (key.clone(), json!(value))));
    }

    /// Puts ports and mounts in once more, as the original does when it writes pods back: of two ports without a name, or two
    /// mounts at one path, the later one also takes the place of the earlier.
    pub(crate) fn settle(&mut self) {
        let before = std::mem::take(&mut self.ports);
        for (kind, before) in KINDS.iter().zip(before) {
            let containers = self.pod_spec_mut().get_mut(*kind).and_then(Value::as_array_mut);
            for (index, container) in containers.into_iter().flatten().enumerate() {
                if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                    upsert::settle(mounts);
                }
                let Some(Value::Array(ports)) = container.get_mut("ports") else { continue };
                let mut settled = ports.clone();
                settled.truncate(before.get(index).copied().unwrap_or_default());
                for port in ports.drain(..) {
                    upsert::port(&mut settled, port);
                }
                *ports = settled;
            }
        }
    }

    fn list(&self, key: &str) -> &[Value] {
        let list = self.pod_spec().and_then(|spec| spec.get(key)).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }
}

/// As in the original, a job of no replicas says nothing of them; the API server makes one of it.
pub(crate) fn forget_none(job: &mut Map<String, Value>) {
    if job.get("replicas").and_then(Value::as_i64) == Some(0) {
        job.remove("replicas");
    }
}

/// Whether something has this name.
pub fn called(item: &Value, name: &str) -> bool {
    item.get("name").and_then(Value::as_str) == Some(name)
}

/// An object inside another, made where there is none.
pub fn object<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { unreachable!("it has just been made an object") };
    map
}

fn labels_of(job: &Map<String, Value>) -> Option<&Map<String, Value>> {
    job.get("template")?.get("metadata")?.get("labels")?.as_object()
}

fn find<'a>(
    spec: &'a mut Map<String, Value>,
    key: &str,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    let items = spec.get_mut(key)?.as_array_mut()?;
    items.iter_mut().find(|item| called(item, name))?.as_object_mut()
}

fn saturated(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}
