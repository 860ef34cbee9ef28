//! The pods of a group become seats: one device of one pod on one server.
//!
//! Pods that name the same server share it. The same device twice is an error that names both pods. Ids and
//! addresses are validated here, since they end up in files that other programs trust. Told to be lenient, nothing is
//! refused: the recorded behaviour of the original is kept, mistakes included.

mod gather;

use std::collections::HashMap;
use std::net::IpAddr;

use crate::order::Arrangement;
use crate::parse::{DeviceData, DeviceMore, ParseError, PodData};
use crate::pod::{Pod, Post};
use crate::template::TableTemplate;

/// Everything that a table is made of, in no order yet.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The pods that take part.
    pub(crate) members: Vec<Member>,
    /// The servers, in the order of their first pod.
    pub(crate) servers: Vec<Server>,
    /// The devices.
    pub(crate) seats: Vec<Seat>,
}

/// A pod that takes part.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) post: Post,
    pub(crate) server: usize,
    pub(crate) data: PodData,
}

/// A server: what its pods say about it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) members: Vec<usize>,
}

/// One device of one pod.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) server: usize,
    pub(crate) member: usize,
    pub(crate) device: DeviceData,
}

/// Why pods make no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Some pods have no annotation yet.
    #[error("{} of {of} pods have no annotation {}: {}", missing.len(), muster_proto::annotation::KEY, some(missing))]
    NotAnnotated {
        /// Those pods.
        missing: Vec<String>,
        /// How many pods there are.
        of: usize,
    },
    /// There are no pods.
    #[error("the group has no pods")]
    Empty,
    /// A pod's annotation cannot be read.
    #[error("pod {pod}: {error}")]
    Unreadable {
        /// The pod.
        pod: String,
        /// Why.
        error: ParseError,
    },
    /// A pod holds no device.
    #[error(
        "pod {pod} on server {server:?} names no devices: wait for its node's agent, or take it out of the group"
    )]
    NoDevices {
        /// The pod.
        pod: String,
        /// The server.
        server: String,
    },
    /// A device has two holders.
    #[error(
        "device {device} of server {server} is named twice, by pod {first} and by pod {second}: one of the annotations is stale or forged"
    )]
    Twice {
        /// The server.
        server: String,
        /// The device.
        device: String,
        /// The pod that has it.
        first: String,
        /// The pod that has it too.
        second: String,
    },
    /// A value does not look like what it should be.
    #[error("pod {pod}: {field} {value:?} is not allowed: {allowed}")]
    Invalid {
        /// The pod.
        pod: String,
        /// The field.
        field: &'static str,
        /// What it holds.
        value: String,
        /// What it can hold.
        allowed: &'static str,
    },
}

// === impl GroupError ===

impl GroupError {
    /// The step that failed, as the conformance cases name it.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Unreadable { error, .. } => error.stage(),
            _ => "group",
        }
    }

    /// The kind, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotAnnotated { .. } => "annotation-missing",
            Self::Empty => "no-pods",
            Self::Unreadable { error, .. } => error.reason(),
            Self::NoDevices { .. } => "no-devices",
            Self::Twice { .. } => "device-twice",
            Self::Invalid { .. } => "value-invalid",
        }
    }
}

// === impl Group ===

impl Group {
    /// Reads all pods.
    pub(crate) fn read(
        template: &TableTemplate,
        pods: &[Pod],
        lenient: bool,
    ) -> Result<Self, GroupError> {
        if pods.is_empty() && !lenient {
            return Err(GroupError::Empty);
        }
        let mut group = Self { members: Vec::with_capacity(pods.len()), ..Self::default() };
        let mut servers: HashMap<String, usize> = HashMap::with_capacity(pods.len());
        let gathered = gather::gather(template, pods, lenient, |pod, data| {
            let server = match servers.get(&data.server_id) {
                Some(server) => *server,
                None => {
                    let id = data.server_id.clone();
                    servers.insert(id.clone(), group.servers.len());
                    group.servers.push(Server { id, members: Vec::new() });
                    group.servers.len() - 1
                }
            };
            if group.seats.is_empty() {
                // Most pods hold as much as the first; a wrong guess costs a copy.
                group.seats.reserve(data.devices.len().min(16) * pods.len());
            }
            group.add(pod, server, data);
        });
        match gathered {
            Ok(()) => Ok(group),
            Err(error) if lenient => Err(error),
            // That pods are missing comes before what is wrong with those that are there.
            Err(error) => Err(missing(pods).unwrap_or(error)),
        }
    }

    fn add(&mut self, pod: &Pod, server: usize, mut data: PodData) {
        let member = self.members.len();
        if let Some(server) = self.servers.get_mut(server) {
            server.members.push(member);
        }
        let devices = std::mem::take(&mut data.devices);
        self.seats.extend(devices.into_iter().map(|device| Seat { server, member, device }));
        if data.host_ip.is_empty() {
            data.host_ip.clone_from(&pod.host_ip);
        }
        if data.container_ip.is_empty() {
            data.container_ip.clone_from(&pod.pod_ip);
        }
        let (name, namespace) = (pod.name.clone(), pod.namespace.clone());
        self.members.push(Member { name, namespace, post: pod.post(), server, data });
    }

    /// Refuses a device that is there twice. Where the order puts equal ids beside each other, only neighbours are
    /// compared.
    pub(crate) fn each_device_once(&self, order: &Arrangement) -> Result<(), GroupError> {
        let mut seats = order.seats.iter().filter_map(|index| self.seats.get(*index as usize));
        let key = |seat: &Seat| (seat.server, seat.device.device_id.clone());
        let twice = match order.servers {
            Some(_) => {
                let mut last: Option<&Seat> = None;
                seats.find_map(|seat| {
                    let before = last.replace(seat)?;
                    let same = before.server == seat.server
                        && before.device.device_id == seat.device.device_id;
                    same.then_some((before, seat))
                })
            }
            None => {
                let mut holders: HashMap<_, &Seat> = HashMap::with_capacity(self.seats.len());
                seats.find_map(|seat| Some((holders.insert(key(seat), seat)?, seat)))
            }
        };
        let Some((first, second)) = twice else { return Ok(()) };
        let name =
            |seat: &Seat| self.members.get(seat.member).map(Member::full_name).unwrap_or_default();
        let server = self.servers.get(second.server).map(|server| server.id.clone());
        Err(GroupError::Twice {
            server: server.unwrap_or_default(),
            device: second.device.device_id.to_string(),
            first: name(first),
            second: name(second),
        })
    }
}

// === impl Member ===

impl Member {
    fn full_name(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

/// A table is made when every pod says what it holds, not before: the pods that do not.
fn missing(pods: &[Pod]) -> Option<GroupError> {
    let missing: Vec<String> =
        pods.iter().filter(|pod| !pod.is_known()).map(Pod::full_name).collect();
    (!missing.is_empty()).then_some(GroupError::NotAnnotated { missing, of: pods.len() })
}

fn validate(pod: &Pod, data: &PodData) -> Result<(), GroupError> {
    let invalid = |field, value: &str, allowed| {
        let (pod, value) = (pod.full_name(), value.to_owned());
        Err(GroupError::Invalid { pod, field, value, allowed })
    };
    if !is_token(&data.server_id, 253) {
        let allowed =
            "a server id has 1 to 253 letters, digits, dots, colons, dashes and underscores";
        return invalid("serverId", &data.server_id, allowed);
    }
    if data.devices.is_empty() {
        let (pod, server) = (pod.full_name(), data.server_id.clone());
        return Err(GroupError::NoDevices { pod, server });
    }
    for device in &data.devices {
        if !is_device_id(&device.device_id) {
            let allowed = "a device id is a number without leading zeros, or a word of up to 64 letters, digits and dashes";
            return invalid("deviceId", &device.device_id, allowed);
        }
        let none = DeviceMore::default();
        let more = device.more.as_deref().unwrap_or(&none);
        for (field, value) in [("deviceIp", device.device_ip.as_str()), ("vnicIp", &more.vnic_ip)] {
            if !value.is_empty() && !value.split(',').all(is_usable_address) {
                let allowed = "an address of a port, neither loopback nor unspecified; empty if there is none";
                return invalid(field, value, allowed);
            }
        }
        if !more.super_device_id.is_empty() && more.super_device_id.parse::<i64>().is_err() {
            return invalid("superDeviceId", &more.super_device_id, "a number");
        }
    }
    for (field, value) in [("hostIp", &data.host_ip), ("containerIp", &data.container_ip)] {
        if !value.is_empty() && value.parse::<IpAddr>().is_err() {
            return invalid(field, value, "an address");
        }
    }
    for (field, value) in [("superPodId", &data.super_pod_id), ("rackId", &data.rack_id)] {
        if !value.is_empty() && !is_token(value, 253) {
            return invalid(field, value, "a word of letters, digits, dots, colons and dashes");
        }
    }
    Ok(())
}

fn is_token(text: &str, longest: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=longest).contains(&text.len()) && text.bytes().all(fits)
}

fn is_device_id(text: &str) -> bool {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => crate::order::is_decimal(text) && text.len() <= 5,
        false => is_token(text, 64),
    }
}

fn is_usable_address(text: &str) -> bool {
    let usable = |address: IpAddr| !address.is_loopback() && !address.is_unspecified();
    text.parse().is_ok_and(usable)
}

/// The first few names, and how many more there are.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests;
