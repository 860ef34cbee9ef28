//! The pod annotation `ascend.com/ranktable`: what one pod holds, for whoever builds rank tables.
//!
//! ```json
//! {"pod_name":"w-0","server_id":"10.0.0.1","devices":[{"device_id":"0","device_ip":"10.20.0.2"}]}
//! ```
//!
//! Every scalar is written as a string. Readers also take numbers, since other writers use them. What a reader
//! does not know it leaves alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod desired;

pub use desired::{desired, lacks_address};

/// The annotation's key.
pub const KEY: &str = "ascend.com/ranktable";

/// All annotations of a pod together may have 256 KiB; this one may have as much.
pub const LARGEST: usize = 256 * 1024;

/// No node has more devices.
pub const MOST_DEVICES: usize = 1024;

/// What one pod holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRanktable {
    /// The pod's name.
    #[serde(deserialize_with = "text")]
    pub pod_name: String,
    /// What names the server: an address of the node.
    #[serde(deserialize_with = "text")]
    pub server_id: String,
    /// The devices, by id.
    pub devices: Vec<AnnotatedDevice>,
    /// Ascend A3: the super-pod of the node.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text_or_none")]
    pub super_pod_id: Option<String>,
    /// Ascend A3: the node's number in it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text_or_none")]
    pub server_index: Option<String>,
}

/// One device of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnotatedDevice {
    /// Ascend: the physical id. NVIDIA: the index.
    #[serde(deserialize_with = "text")]
    pub device_id: String,
    /// The address of its port; empty where it has none.
    #[serde(default, deserialize_with = "text")]
    pub device_ip: String,
    /// Ascend A3: what names it in its super-pod.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text_or_none")]
    pub super_device_id: Option<String>,
    /// NVIDIA: `GPU-…` or `MIG-…`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text_or_none")]
    pub uuid: Option<String>,
    /// Where it is plugged in, NUMA node, address on the super-pod's network: anything that gives no rank.
    #[serde(flatten)]
    pub extras: BTreeMap<String, Value>,
}

/// Why an annotation cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// It is larger than [`LARGEST`].
    #[error("annotation {KEY} has {0} bytes, {LARGEST} are allowed")]
    TooLarge(usize),
    /// It has more than [`MOST_DEVICES`].
    #[error("annotation {KEY} names {0} devices, {MOST_DEVICES} are allowed")]
    TooMany(usize),
    /// It is not what it should be.
    #[error("annotation {KEY}: {0}")]
    Malformed(String),
}

// === impl PodRanktable ===

impl PodRanktable {
    /// Reads the annotation.
    pub fn parse(text: &str) -> Result<Self, AnnotationError> {
        if text.len() > LARGEST {
            return Err(AnnotationError::TooLarge(text.len()));
        }
        let read: Self = serde_json::from_str(text)
            .map_err(|error| AnnotationError::Malformed(error.to_string()))?;
        match read.devices.len() {
            count if count > MOST_DEVICES => Err(AnnotationError::TooMany(count)),
            _ => Ok(read),
        }
    }

    /// Writes the annotation: the same value always gives the same text.
    pub fn write(&self) -> String {
        // Maps with text keys, texts and numbers: nothing that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Number(serde_json::Number),
}

impl From<Scalar> for String {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Text(text) => text,
            Scalar::Number(number) => number.to_string(),
        }
    }
}

fn text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Scalar::deserialize(from).map(String::from)
}

fn text_or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<Scalar>::deserialize(from)?.map(String::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_form_is_written_byte_by_byte() {
        let device = |id: &str, ip: &str| AnnotatedDevice {
            device_id: id.into(),
            device_ip: ip.into(),
            ..AnnotatedDevice::default()
        };
        let table = PodRanktable {
            pod_name: "w-0".into(),
            server_id: "10.0.0.1".into(),
            devices: vec![device("0", "10.20.0.2"), device("1", "")],
            super_pod_id: None,
            server_index: None,
        };
        let text = r#"{"pod_name":"w-0","server_id":"10.0.0.1","devices":[{"device_id":"0","device_ip":"10.20.0.2"},{"device_id":"1","device_ip":""}]}"#;
        assert_eq!(table.write(), text);
        assert_eq!(PodRanktable::parse(text), Ok(table));
    }

    #[test]
    fn the_forms_of_other_writers_are_read() {
        let text = r#"{"pod_name":"j-1","server_id":"9f0c","host_ip":"192.168.50.12","super_pod_id":-2,
            "devices":[{"device_id":0,"device_ip":"10.10.2.2","super_device_id":"4294967295","logic_id":3}],
            "rack_id":-1,"server_index":"-2","server_ip":"192.168.50.12"}"#;
        let read = PodRanktable::parse(text).unwrap();
        assert_eq!(read.super_pod_id.as_deref(), Some("-2"));
        assert_eq!(read.devices[0].device_id, "0");
        assert_eq!(read.devices[0].super_device_id.as_deref(), Some("4294967295"));
        assert_eq!(read.devices[0].extras["logic_id"], 3);
    }

    #[test]
    fn what_is_no_table_is_refused_with_a_reason() {
        for text in ["", "{}", "[]", r#"{"pod_name":"a","server_id":"b","devices":{}}"#, "\u{0}"] {
            assert!(
                matches!(PodRanktable::parse(text), Err(AnnotationError::Malformed(_))),
                "{text}"
            );
        }
        let large = "x".repeat(LARGEST + 1);
        assert_eq!(PodRanktable::parse(&large), Err(AnnotationError::TooLarge(LARGEST + 1)));
        let many = r#"{"device_id":"1"},"#.repeat(MOST_DEVICES + 1);
        let many = format!(
            r#"{{"pod_name":"a","server_id":"b","devices":[{}]}}"#,
            many.trim_end_matches(',')
        );
        assert_eq!(PodRanktable::parse(&many), Err(AnnotationError::TooMany(MOST_DEVICES + 1)));
    }
}
