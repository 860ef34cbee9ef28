//! Seats and ranks become the structs that templates see.

use std::collections::BTreeMap;

use crate::group::{Group, Member, Server};
use crate::order;
use crate::parse::DeviceData;
use crate::table::{
    DeviceWithRank, PodInfo, Rank, RoleInfo, ServerInfo, Shape, SuperPodInfo, Table,
};

/// What a table is to have.
#[derive(Clone, Copy)]
pub(super) struct Detail {
    pub(super) pods: bool,
    pub(super) roles: bool,
    pub(super) shape: Shape,
}

/// The table. Servers stand in the given positions, or by their lowest rank; devices stand by rank.
pub(super) fn table(
    group: Group,
    by_rank: &[u32],
    positions: Option<Vec<u32>>,
    detail: Detail,
) -> Table {
    let Group { members, mut servers, mut seats } = group;
    let needed = detail.pods || detail.roles;
    // Nothing is to be put in order where every server has one pod.
    let member_order = match needed || servers.iter().any(|server| server.members.len() > 1) {
        true => order::pod_positions(&members),
        false => Vec::new(),
    };
    let total_devices = by_rank.len();
    let mut pods = match needed {
        true => members.iter().map(|member| pod(member, &servers)).collect(),
        false => Vec::new(),
    };
    for server in servers.iter_mut().filter(|server| server.members.len() > 1) {
        server.members.sort_by_key(|member| member_order.get(*member));
    }
    let mut infos: Vec<ServerInfo> =
        servers.into_iter().map(|server| describe(server, &members, detail.shape)).collect();
    let mut counts: Vec<usize> = vec![0; infos.len()];
    for seat in &seats {
        if let Some(count) = counts.get_mut(seat.server) {
            *count += 1;
        }
    }
    for (info, count) in infos.iter_mut().zip(counts) {
        info.devices.reserve_exact(count);
    }
    let mut first_seen: Vec<u32> = vec![u32::MAX; infos.len()];
    for (rank, index) in (0..).zip(by_rank) {
        let Some(seat) = seats.get_mut(*index as usize) else { continue };
        let (server, member) = (seat.server, seat.member);
        let device = device(std::mem::take(&mut seat.device), rank, detail.shape);
        if let Some(pod) = pods.get_mut(member) {
            pod.devices.push(device.clone());
        }
        if let Some(info) = infos.get_mut(server) {
            info.devices.push(device);
        }
        if let Some(first) = first_seen.get_mut(server).filter(|first| **first == u32::MAX) {
            *first = rank;
        }
    }
    let servers = sorted(infos, &positions.unwrap_or(first_seen));
    let pods = sorted(
        pods.into_iter().zip(members.iter().map(|member| &member.post.role_id)).collect(),
        &member_order,
    );
    let pods: Vec<_> = pods
        .into_iter()
        .enumerate()
        .map(|(index, (pod, id))| (PodInfo { index, ..pod }, id))
        .collect();
    Table {
        status: "completed".to_owned(),
        server_count: servers.len(),
        total_devices,
        timestamp: String::new(),
        super_pods: super_pods(&servers),
        servers,
        roles: if detail.roles { roles(&pods) } else { Vec::new() },
        pods: if detail.pods { pods.into_iter().map(|(pod, _)| pod).collect() } else { Vec::new() },
        shape: detail.shape,
    }
}

/// The items by their positions; those that share one stay as they are.
fn sorted<T>(items: Vec<T>, positions: &[u32]) -> Vec<T> {
    let mut keyed: Vec<(u32, T)> = positions.iter().copied().zip(items).collect();
    keyed.sort_by_key(|(position, _)| *position);
    keyed.into_iter().map(|(_, item)| item).collect()
}

fn device(device: DeviceData, rank: u32, shape: Shape) -> DeviceWithRank {
    let DeviceData { device_id, device_ip, more } = device;
    DeviceWithRank { device_id, device_ip, rank_id: Rank::new(rank), more, shape }
}

/// A server without its devices: of what its pods say, the first that says something counts.
fn describe(server: Server, members: &[Member], shape: Shape) -> ServerInfo {
    let here = || server.members.iter().filter_map(|member| members.get(*member));
    let first = |field: fn(&Member) -> &String| {
        here().map(field).find(|text| !text.is_empty()).cloned().unwrap_or_default()
    };
    let mut extras = BTreeMap::new();
    for member in here() {
        for (key, value) in &member.data.extras {
            extras.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    ServerInfo {
        devices: Vec::new(),
        host_ip: first(|member| &member.data.host_ip),
        container_ip: first(|member| &member.data.container_ip),
        pod_names: here().map(|member| member.name.clone()).collect(),
        super_pod_id: first(|member| &member.data.super_pod_id),
        rack_id: first(|member| &member.data.rack_id),
        extras,
        shape,
        server_id: server.id,
    }
}

fn pod(member: &Member, servers: &[Server]) -> PodInfo {
    PodInfo {
        pod_name: member.name.clone(),
        namespace: member.namespace.clone(),
        role: member.post.role.clone(),
        index: 0,
        server_id: servers.get(member.server).map(|server| server.id.clone()).unwrap_or_default(),
        host_ip: member.data.host_ip.clone(),
        container_ip: member.data.container_ip.clone(),
        super_pod_id: member.data.super_pod_id.clone(),
        devices: Vec::new(),
    }
}

/// The role instances, in the order of their first pods.
fn roles(pods: &[(PodInfo, &String)]) -> Vec<RoleInfo> {
    let mut roles: Vec<RoleInfo> = Vec::new();
    for (pod, id) in pods {
        match roles.last_mut().filter(|role| role.role == pod.role && role.role_id == **id) {
            Some(role) => role.pods.push(pod.clone()),
            None => roles.push(RoleInfo {
                role: pod.role.clone(),
                role_id: (*id).clone(),
                pods: vec![pod.clone()],
            }),
        }
    }
    roles
}

/// The super-pods, by number. Ids below zero say that there is none.
fn super_pods(servers: &[ServerInfo]) -> Vec<SuperPodInfo> {
    let mut pods: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let within = |server: &&ServerInfo| {
        !server.super_pod_id.is_empty() && !server.super_pod_id.starts_with('-')
    };
    for server in servers.iter().filter(within) {
        pods.entry(&server.super_pod_id).or_default().push(server.server_id.clone());
    }
    let mut pods: Vec<SuperPodInfo> = pods
        .into_iter()
        .map(|(id, server_ids)| SuperPodInfo { super_pod_id: id.to_owned(), server_ids })
        .collect();
    pods.sort_by(|left, right| order::numeric(&left.super_pod_id, &right.super_pod_id));
    pods
}
