//! What one pod holds: its annotation through the parser template, or the agent's report as it is.
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

use crate::short::Short;
use crate::table::Tree;
use crate::template::{Source, TableTemplate, TemplateError};
use muster_proto::annotation::{LARGEST, MOST_DEVICES, PodRanktable};
use node::Node;

/// What one pod holds.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub extras: BTreeMap<String, Tree>,
}

/// One device of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceData {
    /// Its id on the server.
    pub device_id: Short,
    /// The address of its port, or several with commas; may be empty.
    pub device_ip: Short,
    /// What only some devices have. A table may have a hundred thousand devices, so it takes no room where it is not.
    pub more: Option<Box<DeviceMore>>,
}

/// What only some devices have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceMore {
    /// What names it in its super-pod.
    pub super_device_id: Short,
    /// Its number among the visible ones.
    pub logic_id: Short,
    /// Its address on the super-pod's network.
    pub vnic_ip: Short,
    /// The layers of its network, as HCCL 2.0 wants them.
    pub level_list: Tree,
    /// What else the parser found.
    pub extras: BTreeMap<String, Tree>,
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

    /// Takes what an agent reports, as if it had been read from the annotation that the agent writes.
    pub(crate) fn take(&mut self, reported: &PodRanktable) -> Result<PodData, ParseError> {
        match reported.devices.len() {
            count if count > MOST_DEVICES => Err(ParseError::TooMany(count)),
            _ if self.source.is_standard_parser() => Ok(PodData::from(reported)),
            _ => self.parse(&reported.write()),
        }
    }

    pub(crate) fn parse(&mut self, annotation: &str) -> Result<PodData, ParseError> {
        if annotation.len() > LARGEST {
            return Err(ParseError::TooLarge(annotation.len()));
        }
        self.buffer.clear();
        let template = self.source.get()?;
        template.execute(annotation, &mut self.buffer).map_err(|error| self.source.error(error))?;
        let text = std::str::from_utf8(&self.buffer)
            .map_err(|error| ParseError::Output(error.to_string()))?;
        let pod = match plain::read(text) {
            Some(pod) => pod,
            None => yaml::read(text).and_then(PodData::try_from).map_err(ParseError::Output)?,
        };
        match pod.devices.len() {
            count if count > MOST_DEVICES => Err(ParseError::TooMany(count)),
            _ => Ok(pod),
        }
    }
}

// === impl PodData ===

impl PodData {
    /// The text field that a key fills.
    fn text(&mut self, key: &str) -> Option<&mut String> {
        match key {
            "podName" => Some(&mut self.pod_name),
            "serverId" => Some(&mut self.server_id),
            "hostIp" => Some(&mut self.host_ip),
            "containerIp" => Some(&mut self.container_ip),
            "superPodId" => Some(&mut self.super_pod_id),
            "rackId" => Some(&mut self.rack_id),
            _ => None,
        }
    }
}

/// What the standard parser takes of it.
impl From<&PodRanktable> for PodData {
    fn from(reported: &PodRanktable) -> Self {
        let devices = reported.devices.iter().map(|device| DeviceData {
            device_id: device.device_id.as_str().into(),
            device_ip: device.device_ip.as_str().into(),
            more: None,
        });
        Self {
            pod_name: reported.pod_name.clone(),
            server_id: reported.server_id.clone(),
            devices: devices.collect(),
            ..Self::default()
        }
    }
}

impl TryFrom<Node> for PodData {
    type Error = String;

    fn try_from(node: Node) -> Result<Self, String> {
        let mut pod = Self::default();
        for (key, value) in node.into_map("the pod")? {
            let known = known(&key, &POD_KEYS);
            match known.and_then(|key| pod.text(key)) {
                Some(field) => *field = value.into_text(&key)?,
                None if known == Some("devices") => {
                    let devices = value.into_list("devices")?;
                    pod.devices =
                        devices.into_iter().map(DeviceData::try_from).collect::<Result<_, _>>()?;
                }
                // Null is as good as nothing.
                None if matches!(value, Node::Null) => {}
                None => drop(pod.extras.insert(key, Tree(value.into_json()))),
            }
        }
        Ok(pod)
    }
}

// === impl DeviceData ===

impl DeviceData {
    /// Fills the text field of a key; none if there is no such field.
    fn put(&mut self, key: &str, text: &str) -> Option<()> {
        match key {
            "deviceId" => self.device_id = text.into(),
            "deviceIp" => self.device_ip = text.into(),
            "superDeviceId" => self.more().super_device_id = text.into(),
            "logicId" => self.more().logic_id = text.into(),
            "vnicIp" => self.more().vnic_ip = text.into(),
            _ => return None,
        }
        Some(())
    }

    fn more(&mut self) -> &mut DeviceMore {
        self.more.get_or_insert_default()
    }
}

impl TryFrom<Node> for DeviceData {
    type Error = String;

    fn try_from(node: Node) -> Result<Self, String> {
        let mut device = Self::default();
        for (key, value) in node.into_map("a device")? {
            // Null is as good as nothing.
            if matches!(value, Node::Null) {
                continue;
            }
            match known(&key, &DEVICE_KEYS) {
                Some("levelList") => device.more().level_list = Tree(value.into_json()),
                Some(known) => drop(device.put(known, &value.into_text(&key)?)),
                None => drop(device.more().extras.insert(key, Tree(value.into_json()))),
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

#[cfg(test)]
mod tests;
