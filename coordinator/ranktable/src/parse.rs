//! One pod's annotation through the parser template: text in, pod data out.
//!
//! ```text
//!   annotation ──parser template──▶ YAML or JSON ──plain, else yaml──▶ nodes ──▶ PodData
//!     ≤ 256 KiB                       ≤ 256 KiB         no anchors, no tags       scalars are text
//! ```
//!
//! What comes out of the template is a mapping with `podName`, `serverId` and `devices`, a list of mappings with
//! `deviceId` and `deviceIp`. Upper and lower case of keys does not matter, as it does not in Go. Further known keys
//! fill further fields; the others are kept as extras.

mod node;
mod plain;
mod yaml;

use std::collections::BTreeMap;

use muster_proto::annotation::{LARGEST, MOST_DEVICES};
use serde_json::Value as Json;

use crate::template::{Source, TableTemplate, TemplateError};
use node::Node;

/// What one pod holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodData {
    /// The pod's name, as the annotation says.
    pub pod_name: String,
    /// What names the server.
    pub server_id: String,
    /// The devices, in the order of the annotation.
    pub devices: Vec<DeviceData>,
    /// The address of the node.
    pub host_ip: String,
    /// The address of the pod.
    pub container_ip: String,
    /// The super-pod of the node.
    pub super_pod_id: String,
    /// The rack of the node.
    pub rack_id: String,
    /// What else the parser found.
    pub extras: BTreeMap<String, Json>,
}

/// One device of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceData {
    /// Its id on the server.
    pub device_id: String,
    /// The address of its port, or several with commas; may be empty.
    pub device_ip: String,
    /// What names it in its super-pod.
    pub super_device_id: String,
    /// Its number among the visible ones.
    pub logic_id: String,
    /// Its address on the super-pod's network.
    pub vnic_ip: String,
    /// The layers of its network, as HCCL 2.0 wants them.
    pub level_list: Json,
    /// What else the parser found.
    pub extras: BTreeMap<String, Json>,
}

/// Why an annotation cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is longer than any annotation.
    #[error("the annotation has {0} bytes, {LARGEST} are allowed")]
    TooLarge(usize),
    /// The parser template does not parse or does not execute.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// What the parser template wrote is no YAML, or not of the form that is expected.
    #[error("the output of the parser template cannot be read as YAML: {0}")]
    Output(String),
    /// More devices than any node has.
    #[error("the annotation names {0} devices, {MOST_DEVICES} are allowed")]
    TooMany(usize),
}

/// Reads many annotations, one after the other.
#[derive(Debug)]
pub(crate) struct Parser<'a> {
    source: &'a Source,
    buffer: Vec<u8>,
}

// === impl ParseError ===

impl ParseError {
    /// The step that failed, as the conformance cases name it.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::TooLarge(_) | Self::Template(_) => "pod-parser-template",
            Self::Output(_) | Self::TooMany(_) => "parser-output-yaml",
        }
    }

    /// The kind, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "annotation-too-large",
            Self::Template(error) => error.reason(),
            Self::Output(_) => "parser-output-malformed",
            Self::TooMany(_) => "too-many-devices",
        }
    }
}

// === impl TableTemplate ===

impl TableTemplate {
    /// Reads one annotation.
    pub fn parse(&self, annotation: &str) -> Result<PodData, ParseError> {
        Parser::new(self).parse(annotation)
    }
}

// === impl Parser ===

impl<'a> Parser<'a> {
    pub(crate) fn new(template: &'a TableTemplate) -> Self {
        Self { source: &template.parser, buffer: Vec::new() }
    }

    pub(crate) fn parse(&mut self, annotation: &str) -> Result<PodData, ParseError> {
        if annotation.len() > LARGEST {
            return Err(ParseError::TooLarge(annotation.len()));
        }
        self.buffer.clear();
        let template = self.source.get()?;
        template
            .execute(annotation, &mut self.buffer)
            .map_err(|error| self.source.error(error))?;
        let text = std::str::from_utf8(&self.buffer)
            .map_err(|error| ParseError::Output(error.to_string()))?;
        let node = match plain::read(text) {
            Some(node) => node,
            None => yaml::read(text).map_err(ParseError::Output)?,
        };
        let pod = PodData::try_from(node).map_err(ParseError::Output)?;
        match pod.devices.len() {
            count if count > MOST_DEVICES => Err(ParseError::TooMany(count)),
            _ => Ok(pod),
        }
    }
}

// === impl PodData ===

impl TryFrom<Node<'_>> for PodData {
    type Error = String;

    fn try_from(node: Node<'_>) -> Result<Self, String> {
        let mut pod = Self::default();
        for (key, value) in node.into_map("the pod")? {
            match known(&key, &POD_KEYS) {
                Some("podName") => pod.pod_name = value.into_text("podName")?,
                Some("serverId") => pod.server_id = value.into_text("serverId")?,
                Some("devices") => {
                    let devices = value.into_list("devices")?;
                    pod.devices =
                        devices.into_iter().map(DeviceData::try_from).collect::<Result<_, _>>()?;
                }
                Some("hostIp") => pod.host_ip = value.into_text("hostIp")?,
                Some("containerIp") => pod.container_ip = value.into_text("containerIp")?,
                Some("superPodId") => pod.super_pod_id = value.into_text("superPodId")?,
                Some("rackId") => pod.rack_id = value.into_text("rackId")?,
                _ => drop(pod.extras.insert(key.into_owned(), value.into_json())),
            }
        }
        Ok(pod)
    }
}

// === impl DeviceData ===

impl TryFrom<Node<'_>> for DeviceData {
    type Error = String;

    fn try_from(node: Node<'_>) -> Result<Self, String> {
        let mut device = Self::default();
        for (key, value) in node.into_map("a device")? {
            match known(&key, &DEVICE_KEYS) {
                Some("deviceId") => device.device_id = value.into_text("deviceId")?,
                Some("deviceIp") => device.device_ip = value.into_text("deviceIp")?,
                Some("superDeviceId") => device.super_device_id = value.into_text("superDeviceId")?,
                Some("logicId") => device.logic_id = value.into_text("logicId")?,
                Some("vnicIp") => device.vnic_ip = value.into_text("vnicIp")?,
                Some("levelList") => device.level_list = value.into_json(),
                _ => drop(device.extras.insert(key.into_owned(), value.into_json())),
            }
        }
        Ok(device)
    }
}

const POD_KEYS: [&str; 7] =
    ["podName", "serverId", "devices", "hostIp", "containerIp", "superPodId", "rackId"];
const DEVICE_KEYS: [&str; 6] =
    ["deviceId", "deviceIp", "superDeviceId", "logicId", "vnicIp", "levelList"];

/// The key in the spelling that is known.
fn known(key: &str, keys: &[&'static str]) -> Option<&'static str> {
    keys.iter().copied().find(|known| known.eq_ignore_ascii_case(key))
}

#[cfg(any())]
mod tests;
