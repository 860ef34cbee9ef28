//! What a pod asks for when it shares a device: a fraction or an amount of memory, of one device or of several.

use serde_json::Value;

use super::Refused;
use crate::object::Object;

/// An annotation: which part of a device, above 0 and below 1.
pub const FRACTION: &str = "gpu-fraction";
/// An annotation: how much of a device's memory, in MiB.
pub const MEMORY: &str = "gpu-memory";
/// An annotation: of how many devices.
pub const COUNT: &str = "gpu-fraction-num-devices";
/// An annotation: which container gets it.
pub const CONTAINER: &str = "gpu-fraction-container-name";
/// An annotation: whether a process server is to be used.
pub const MPS: &str = "mps";
/// The resource of whole devices.
pub const DEVICE: &str = "nvidia.com/gpu";

/// Whether a pod shares a device.
pub fn is_shared(pod: &Object) -> bool {
    pod.annotation(FRACTION).is_some() || pod.annotation(MEMORY).is_some()
}

/// Judges what a pod asks for.
///
/// # Errors
/// Why it is refused.
pub fn check(pod: &Object) -> Result<(), Refused> {
    let (fraction, memory) = (pod.annotation(FRACTION), pod.annotation(MEMORY));
    let count = pod.annotation(COUNT);
    let whole = has_whole(pod);
    let refused = |class, key: &str, detail: String, remedy| {
        Err(Refused::new(class, pod, format!("metadata.annotations[{key}]"), detail, remedy))
    };
    if !is_shared(pod) && pod.annotation(MPS) == Some("true") {
        let detail = "it is for shared devices, and the pod shares none".to_owned();
        return refused("mps-without-fraction", MPS, detail, "add gpu-fraction, or remove mps");
    }
    if fraction.is_some() && whole {
        let detail = format!("a container has a limit of {DEVICE} as well");
        return refused("fraction-and-whole", FRACTION, detail, "leave one of the two");
    }
    if memory.is_some() && (fraction.is_some() || whole) {
        let detail = "a fraction or whole devices are asked for as well".to_owned();
        return refused("memory-and-gpu", MEMORY, detail, "leave one of them");
    }
    if count.is_some() && !is_shared(pod) {
        let detail = "it counts shared devices, and the pod shares none".to_owned();
        return refused("count-without-fraction", COUNT, detail, "add gpu-fraction or gpu-memory");
    }
    let positive = "write a whole number above 0";
    if let Some(text) = memory.filter(|text| !is_positive(text)) {
        return refused("memory-value", MEMORY, format!("{text:?} is no amount of MiB"), positive);
    }
    if let Some(text) = fraction.filter(|text| !is_fraction(text)) {
        let detail = format!("{text:?} is no fraction of a device");
        let remedy = "write a decimal number above 0 and below 1, like 0.5";
        return refused("fraction-value", FRACTION, detail, remedy);
    }
    if let Some(text) = count.filter(|text| !is_positive(text)) {
        return refused("count-value", COUNT, format!("{text:?} is no count of devices"), positive);
    }
    Ok(())
}

/// Any limit of whole devices, even of none.
fn has_whole(pod: &Object) -> bool {
    let spec = pod.raw().get("spec");
    let containers = ["containers", "initContainers"].into_iter().filter_map(|key| spec?.get(key));
    let mut containers = containers.filter_map(Value::as_array).flatten();
    let limit = |container: &Value| container.pointer("/resources/limits")?.get(DEVICE).cloned();
    containers.any(|container| limit(container).is_some())
}

fn is_positive(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u64>().is_ok_and(|n| n > 0)
}

/// A number as Go and Kubernetes both read it: digits, a point, an exponent, a sign.
fn is_fraction(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    if !text.bytes().all(known) || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    // A quantity's exponent fits in 32 bits.
    let exponent = text.split_once(['e', 'E']).map(|(_, exponent)| exponent);
    exponent.is_none_or(|exponent| exponent.parse::<i32>().is_ok())
        && text.parse::<f64>().is_ok_and(|number| number > 0.0 && number < 1.0)
}
