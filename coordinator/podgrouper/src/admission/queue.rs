//! Queues: they must say what they have, and a queue with children stays.

use serde_json::Value;

use super::Refused;
use super::pod_group::is_empty;
use crate::object::Object;
use crate::objects::{Key, Objects};
use muster_kube::duration;

const API: &str = "scheduling.run.ai/v2";
const MISSING: &str = "resources must be specified";

/// What a queue is due, of each resource.
struct Quotas {
    cpu: f64,
    gpu: f64,
    memory: f64,
}

/// Judges a queue that is written. Quotas are compared with the parent's and the children's if `quotas` is on; `old`
/// is the queue that is there.
///
/// # Errors
/// Why it is refused.
pub fn check(
    queue: &Object,
    old: Option<&Object>,
    objects: &dyn Objects,
    quotas: bool,
) -> Result<Vec<String>, Refused> {
    let spec = queue.raw().get("spec");
    for key in ["preemptMinRuntime", "reclaimMinRuntime"] {
        let text = spec.and_then(|spec| spec.get(key)).and_then(Value::as_str);
        if let Some(text) = text.filter(|text| !duration::is_duration(text)) {
            let detail = format!("{text:?} is no duration");
            let field = format!("spec.{key}");
            return Err(Refused::new("decode", queue, field, detail, "write it like 10m or 1h30m"));
        }
    }
    if is_empty(spec.and_then(|spec| spec.get("resources"))) {
        let remedy = "say what the queue is due, if only as an empty object";
        let refused = Refused::new("resources-missing", queue, "spec.resources", MISSING, remedy);
        return Err(Refused { warnings: vec![MISSING.to_owned()], ..refused });
    }
    let mut warnings = Vec::new();
    if !quotas {
        return Ok(warnings);
    }
    let own = Quotas::of(queue);
    let parent = text(queue, "/spec/parentQueue");
    if !parent.is_empty() {
        warnings.extend(above(queue, &own, parent, objects)?);
    }
    if let Some(old) = old
        && !children(old).is_empty()
    {
        warnings.extend(below(queue, &own, objects));
    }
    Ok(warnings)
}

/// A name in `spec.resources` that nothing would read: a typing error there is a queue without its limit. KAI's API server drops such
/// a name without a word.
pub(super) fn unknown_resource(queue: &Object) -> Option<Refused> {
    let resources = queue.raw().pointer("/spec/resources")?.as_object()?;
    let is_known = |name: &str| ["gpu", "cpu", "memory"].contains(&name) || is_kind(name);
    let name = resources.keys().find(|name| !is_known(name))?;
    let field = format!("spec.resources[{name}]");
    let detail = format!("{name:?} is no kind of accelerators that queues share");
    let remedy = "write gpu, cpu, memory, or what a whole device is called: nvidia.com/gpu, huawei.com/Ascend910, \
                  huawei.com/Ascend310P, huawei.com/npu, ascend.com/npu";
    Some(Refused::new("resources-unknown", queue, field, detail, remedy))
}

/// Whether a resource is a whole accelerator, as the scheduler knows them.
fn is_kind(name: &str) -> bool {
    let Some((domain, kind)) = name.split_once('/') else { return false };
    match (domain, kind) {
        (_, kind) if kind.ends_with("gpu") => true,
        ("huawei.com" | "ascend.com", "npu") => true,
        ("huawei.com", kind) => {
            kind.strip_prefix("Ascend").is_some_and(|chip| !chip.is_empty() && !chip.contains('-'))
        }
        _ => false,
    }
}

/// Judges that a queue is deleted.
///
/// # Errors
/// Why it must stay.
pub fn check_delete(queue: &Object) -> Result<(), Refused> {
    let children = children(queue);
    if children.is_empty() {
        return Ok(());
    }
    let detail = format!("{} are in it", children.join(", "));
    let remedy = "delete or move its children first";
    Err(Refused::new("queue-has-children", queue, "status.childQueues", detail, remedy))
}

/// Compared with its parent, and its siblings with it.
fn above(
    queue: &Object,
    own: &Quotas,
    parent: &str,
    objects: &dyn Objects,
) -> Result<Vec<String>, Refused> {
    let refused = |class, detail: &str, remedy| {
        let detail = format!("parent queue {parent} {detail}");
        Err(Refused::new(class, queue, "spec.parentQueue", detail, remedy))
    };
    let Some(found) = get(objects, parent) else {
        return refused("parent-queue-missing", "is not there", "create it first");
    };
    if is_empty(found.raw().pointer("/spec/resources")) {
        return refused("parent-queue-resources", "does not say what it has", "give it resources");
    }
    let theirs = Quotas::of(&found);
    let mut warnings = Vec::new();
    if own.cpu > theirs.cpu {
        warnings.push(format!(
            "child queue CPU quota ({:.0}) exceeds parent queue {parent} CPU quota ({:.0})",
            own.cpu, theirs.cpu
        ));
    }
    let others = children(&found).into_iter().filter(|child| *child != queue.name());
    let others = others.filter_map(|child| get(objects, child));
    let total = own.cpu + others.map(|child| Quotas::of(&child).cpu).sum::<f64>();
    if total > theirs.cpu {
        warnings.push(format!(
            "total children CPU quota ({total:.0}) exceeds parent queue {parent} CPU quota ({:.0})",
            theirs.cpu
        ));
    }
    if own.gpu > theirs.gpu {
        warnings.push(format!(
            "child queue GPU quota ({:.2}) exceeds parent queue {parent} GPU quota ({:.2})",
            own.gpu, theirs.gpu
        ));
    }
    if own.memory > theirs.memory {
        warnings.push(format!(
            "child queue Memory quota ({:.0}) exceeds parent queue {parent} Memory quota ({:.0})",
            own.memory, theirs.memory
        ));
    }
    Ok(warnings)
}

/// Compared with its children.
fn below(queue: &Object, own: &Quotas, objects: &dyn Objects) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut total = Quotas { cpu: 0.0, gpu: 0.0, memory: 0.0 };
    for name in children(queue) {
        let Some(child) = get(objects, name) else { continue };
        let child = Quotas::of(&child);
        total.cpu += child.cpu;
        total.gpu += child.gpu;
        total.memory += child.memory;
        if child.cpu > own.cpu {
            warnings.push(format!(
                "child queue {name} CPU quota ({:.0}) exceeds parent CPU quota ({:.0})",
                child.cpu, own.cpu
            ));
        }
    }
    let mut sum = |what: &str, total: f64, own: f64, places: usize| {
        if total > own {
            warnings.push(format!(
                "total children {what} quota ({total:.places$}) exceeds parent {what} quota ({own:.places$})"
            ));
        }
    };
    sum("CPU", total.cpu, own.cpu, 0);
    sum("GPU", total.gpu, own.gpu, 2);
    sum("Memory", total.memory, own.memory, 0);
    warnings
}

fn get(objects: &dyn Objects, name: &str) -> Option<std::sync::Arc<Object>> {
    objects.get(&Key::new(API, "Queue", "", name)).ok()
}

fn children(queue: &Object) -> Vec<&str> {
    let children = queue.raw().pointer("/status/childQueues").and_then(Value::as_array);
    children.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn text<'a>(queue: &'a Object, pointer: &str) -> &'a str {
    queue.raw().pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

// === impl Quotas ===

impl Quotas {
    fn of(queue: &Object) -> Self {
        let quota = |resource: &str| {
            let pointer = format!("/spec/resources/{resource}/quota");
            queue.raw().pointer(&pointer).and_then(Value::as_f64).unwrap_or(0.0)
        };
        Self { cpu: quota("cpu"), gpu: quota("gpu"), memory: quota("memory") }
    }
}
