//! What a table template sees.
//!
//! The names and the order of the first fields of each struct are the seed's; further fields follow them. A name that
//! does not exist is an error of the template. In the seed's shape the further fields do not exist either, so that
//! printing a whole struct gives what it gave.

use std::collections::BTreeMap;
use std::fmt;

use gotemplate::{Data, Numbers, Struct, Value};
use serde_json::Value as Json;

use crate::parse::DeviceMore;
use crate::short::Short;

/// A table: the dot of the template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Always `completed`.
    pub status: String,
    /// How many servers there are.
    pub server_count: usize,
    /// How many devices, and so ranks, there are.
    pub total_devices: usize,
    /// When its input changed last, in RFC 3339.
    pub timestamp: String,
    /// The servers, in the order of their ranks.
    pub servers: Vec<ServerInfo>,
    /// The super-pods, where servers have one.
    pub super_pods: Vec<SuperPodInfo>,
    /// The pods, entry first, each with its own devices. Filled if the template mentions it.
    pub pods: Vec<PodInfo>,
    /// The role instances with their pods. Filled if the template mentions it.
    pub roles: Vec<RoleInfo>,
    pub(crate) shape: Shape,
}

/// A server with its devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    /// What names it.
    pub server_id: String,
    /// Its devices, by rank.
    pub devices: Vec<DeviceWithRank>,
    /// Address of the host.
    pub host_ip: String,
    /// The address of its first pod.
    pub container_ip: String,
    /// The pods on it.
    pub pod_names: Vec<String>,
    /// Id of the server's super-pod.
    pub super_pod_id: String,
    /// Id of the server's rack.
    pub rack_id: String,
    /// What else the parser found.
    pub extras: BTreeMap<String, Tree>,
    pub(crate) shape: Shape,
}

/// A device with its rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceWithRank {
    /// Its id on the server.
    pub device_id: Short,
    /// Address of the device's port.
    pub device_ip: Short,
    /// Rank of the device.
    pub rank_id: Rank,
    /// What only some devices have; templates see its fields as the device's own.
    pub more: Option<Box<DeviceMore>>,
    pub(crate) shape: Shape,
}

/// A super-pod with its servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuperPodInfo {
    /// What names it.
    pub super_pod_id: String,
    /// The servers in it.
    pub server_ids: Vec<String>,
}

/// A pod of the rank group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodInfo {
    /// Name of the pod.
    pub pod_name: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Role of the pod in its workload.
    pub role: String,
    /// Its number in the list, from 0.
    pub index: usize,
    /// Id of the server that the pod is on.
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
    /// Name of the role.
    pub role: String,
    /// Id of the role's instance.
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
/// A rank as text. It lies in the device itself: a table has as many as it has devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    digits: [u8; 10],
    first: u8,
}

// === impl Rank ===

impl Rank {
    /// The text of a number.
    pub fn new(mut rank: u32) -> Self {
        let (mut digits, mut first) = ([b'0'; 10], 10);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rank % 10) as u8;
            rank /= 10;
            first -= 1;
            if rank == 0 {
                break;
            }
        }
        Self { digits, first }
    }

    /// The rank as text.
    pub fn as_str(&self) -> &str {
        let digits = self.digits.get(usize::from(self.first)..).unwrap_or_default();
        std::str::from_utf8(digits).unwrap_or_default()
    }

    /// The rank as a number.
    pub fn number(&self) -> u32 {
        self.as_str().parse().unwrap_or_default()
    }
}

impl Default for Rank {
    fn default() -> Self {
        Self::new(0)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Data for Rank {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::from(self.as_str())
    }
}

// === impl DeviceWithRank ===

static NO_MORE: DeviceMore = DeviceMore {
    super_device_id: Short::EMPTY,
    logic_id: Short::EMPTY,
    vnic_ip: Short::EMPTY,
    level_list: Tree(Json::Null),
    extras: BTreeMap::new(),
};

impl DeviceWithRank {
    /// What only some devices have; nothing where this one has none of it.
    pub fn more(&self) -> &DeviceMore {
        self.more.as_deref().unwrap_or(&NO_MORE)
    }
}

impl Struct for DeviceWithRank {
    fn type_name(&self) -> &'static str {
        "main.DeviceWithRank"
    }

    fn fields(&self) -> &'static [&'static str] {
        match self.shape {
            Shape::Full => &[
                "DeviceId",
                "DeviceIp",
                "RankId",
                "SuperDeviceId",
                "LogicId",
                "VnicIp",
                "LevelList",
                "Extras",
            ],
            Shape::Seed => &["DeviceId", "DeviceIp", "RankId"],
        }
    }

    #[inline]
    fn field(&self, index: usize) -> Value<'_> {
        match index {
            0 => self.device_id.value(),
            1 => self.device_ip.value(),
            2 => self.rank_id.value(),
            3 => self.more().super_device_id.value(),
            4 => self.more().logic_id.value(),
            5 => self.more().vnic_ip.value(),
            6 => self.more().level_list.value(),
            7 => self.more().extras.value(),
            _ => Value::Missing,
        }
    }
}

impl Data for DeviceWithRank {
    fn value(&self) -> Value<'_> {
        Value::Struct(self)
    }

    fn slice_name() -> &'static str {
        "[]main.DeviceWithRank"
    }

    fn map_name() -> &'static str {
        "map[string]main.DeviceWithRank"
    }
}

// === impl Tree ===

impl Data for Tree {
    fn value(&self) -> Value<'_> {
        Value::from_json(&self.0, Numbers::Typed)
    }
}
