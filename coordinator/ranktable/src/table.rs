//! What a table template sees.
//!
//! The names and the order of the first fields of each struct are the seed's; further fields follow them. A name that
//! does not exist is an error of the template. In the seed's shape the further fields do not exist either, so that
//! printing a whole struct gives what it gave.

use std::collections::BTreeMap;

use gotemplate::{Data, Numbers, Struct, Value};
use serde_json::Value as Json;

/// A table: the dot of the template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// `completed`.
    pub status: String,
    /// How many servers there are.
    pub server_count: usize,
    /// How many devices, and so ranks, there are.
    pub total_devices: usize,
    /// When its input changed last, in RFC 3339.
    pub timestamp: String,
    /// The servers.
    pub servers: Vec<ServerInfo>,
    /// The super-pods, where servers have one.
    pub super_pods: Vec<SuperPodInfo>,
    /// The pods, entry first, each with its own devices. Filled if the template mentions it.
    pub pods: Vec<PodInfo>,
    /// The role instances with their pods. Filled if the template mentions it.
    pub roles: Vec<RoleInfo>,
    pub(crate) shape: Shape,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    /// What names it.
    pub server_id: String,
    /// Its devices, by rank.
    pub devices: Vec<DeviceWithRank>,
    /// Its address.
    pub host_ip: String,
    /// The address of its first pod.
    pub container_ip: String,
    /// The pods on it.
    pub pod_names: Vec<String>,
    /// Its super-pod.
    pub super_pod_id: String,
    /// Its rack.
    pub rack_id: String,
    /// What else the parser found.
    pub extras: BTreeMap<String, Tree>,
    pub(crate) shape: Shape,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceWithRank {
    /// Its id on the server.
    pub device_id: String,
    /// Its address.
    pub device_ip: String,
    /// Its rank.
    pub rank_id: String,
    /// What names it in its super-pod.
    pub super_device_id: String,
    /// Its number among the visible ones.
    pub logic_id: String,
    /// Its address on the super-pod's network.
    pub vnic_ip: String,
    /// The layers of its network.
    pub level_list: Tree,
    /// What else the parser found.
    pub extras: BTreeMap<String, Tree>,
    pub(crate) shape: Shape,
}

/// A super-pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuperPodInfo {
    /// What names it.
    pub super_pod_id: String,
    /// The servers in it.
    pub server_ids: Vec<String>,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodInfo {
    /// Its name.
    pub pod_name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its role.
    pub role: String,
    /// Its number in the list, from 0.
    pub index: usize,
    /// The server.
    pub server_id: String,
    /// The address of the server.
    pub host_ip: String,
    /// Its own address.
    pub container_ip: String,
    /// The super-pod of the server.
    pub super_pod_id: String,
    /// Its devices, by rank.
    pub devices: Vec<DeviceWithRank>,
}

/// A role instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoleInfo {
    /// The role.
    pub role: String,
    /// The instance.
    pub role_id: String,
    /// Its pods, entry first.
    pub pods: Vec<PodInfo>,
}

/// Any value that the parser found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree(pub Json);

/// Which fields a template sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All.
    #[default]
    Full,
    /// The seed's alone.
    Seed,
}

gotemplate::structure!(SuperPodInfo as "main.SuperPodInfo" {
    SuperPodId: super_pod_id, ServerIds: server_ids,
});
gotemplate::structure!(PodInfo as "main.PodInfo" {
    PodName: pod_name, Namespace: namespace, Role: role, Index: index, ServerId: server_id,
    HostIp: host_ip, ContainerIp: container_ip, SuperPodId: super_pod_id, Devices: devices,
});
gotemplate::structure!(RoleInfo as "main.RoleInfo" { Role: role, RoleId: role_id, Pods: pods });

/// Like `gotemplate::structure!`, with the number of fields that the seed's shape has.
macro_rules! shaped {
    ($type:ty as $name:literal, $seed:literal { $($field:ident: $member:ident),* $(,)? }) => {
        impl Struct for $type {
            fn type_name(&self) -> &'static str {
                $name
            }

            fn fields(&self) -> &'static [&'static str] {
                const FIELDS: &[&str] = &[$(stringify!($field)),*];
                const SEED: &[&str] = FIELDS.split_at($seed).0;
                match self.shape {
                    Shape::Full => FIELDS,
                    Shape::Seed => SEED,
                }
            }

            #[inline]
            fn field(&self, index: usize) -> Value<'_> {
                let mut next = 0;
                $(
                    if index == next {
                        return Data::value(&self.$member);
                    }
                    next += 1;
                )*
                let _ = next;
                Value::Missing
            }
        }

        impl Data for $type {
            fn value(&self) -> Value<'_> {
                Value::Struct(self)
            }

            fn slice_name() -> &'static str {
                concat!("[]", $name)
            }

            fn map_name() -> &'static str {
                concat!("map[string]", $name)
            }
        }
    };
}

shaped!(Table as "main.RanktableTemplateData", 5 {
    Status: status, ServerCount: server_count, TotalDevices: total_devices, Timestamp: timestamp,
    Servers: servers, SuperPods: super_pods, Pods: pods, Roles: roles,
});
shaped!(ServerInfo as "main.ServerInfo", 2 {
    ServerId: server_id, Devices: devices, HostIp: host_ip, ContainerIp: container_ip,
    PodNames: pod_names, SuperPodId: super_pod_id, RackId: rack_id, Extras: extras,
});
shaped!(DeviceWithRank as "main.DeviceWithRank", 3 {
    DeviceId: device_id, DeviceIp: device_ip, RankId: rank_id, SuperDeviceId: super_device_id,
    LogicId: logic_id, VnicIp: vnic_ip, LevelList: level_list, Extras: extras,
});

// === impl Tree ===

impl Data for Tree {
    fn value(&self) -> Value<'_> {
        Value::from_json(&self.0, Numbers::Typed)
    }
}
