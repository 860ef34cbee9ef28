//! Two tables, member by member.
//!
//! A member is a device of a server. It can be there in one table only, have another rank, or have another address; a
//! rank can have gone to another member.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

use crate::check::{Format, format};

/// A device of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Seat {
    /// Id of the server.
    pub server: String,
    /// Id of the device.
    pub device: String,
}

/// What the tables do not share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Members of the second table alone, with their ranks.
    pub added: Vec<(Seat, u64)>,
    /// Members of the first table alone, with their ranks.
    pub removed: Vec<(Seat, u64)>,
    /// Members of both that have another rank: from, to.
    pub renumbered: Vec<(Seat, u64, u64)>,
    /// Ranks of both that are on another server: from, to.
    pub moved: Vec<(u64, Seat, Seat)>,
    /// Members of both that have another address: from, to.
    pub readdressed: Vec<(Seat, String, String)>,
    /// Other fields of the table: name, from, to.
    pub fields: Vec<(String, String, String)>,
}

/// Why two tables cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// One of them is no JSON.
    #[error("the {which} table is no JSON: {message}")]
    NotJson {
        /// `first` or `second`.
        which: &'static str,
        /// What is wrong, with line and column.
        message: String,
    },
    /// One of them is of no known format.
    #[error("the {which} table has no server_list, rank_list, group_list or server_group_list")]
    Unknown {
        /// `first` or `second`.
        which: &'static str,
    },
}

// === impl DiffError ===

impl DiffError {
    /// Whether it is about the first of the two tables.
    pub fn is_of_the_first(&self) -> bool {
        let (Self::NotJson { which, .. } | Self::Unknown { which }) = self;
        *which == "first"
    }
}

/// Members by server and device, with rank and address.
pub(crate) type Members = BTreeMap<Seat, (u64, String)>;

/// Compares two tables.
pub fn diff(first: &str, second: &str) -> Result<Diff, DiffError> {
    let (one, before) = read(first, "first")?;
    let (other, after) = read(second, "second")?;
    let mut diff = Diff::default();
    for (seat, (rank, address)) in &before {
        match after.get(seat) {
            None => diff.removed.push((seat.clone(), *rank)),
            Some((now, new)) => {
                if now != rank {
                    diff.renumbered.push((seat.clone(), *rank, *now));
                }
                if new != address {
                    diff.readdressed.push((seat.clone(), address.clone(), new.clone()));
                }
            }
        }
    }
    let added = after.iter().filter(|(seat, _)| !before.contains_key(*seat));
    diff.added = added.map(|(seat, (rank, _))| (seat.clone(), *rank)).collect();
    diff.moved = moved(&before, &after);
    for key in ["version", "status", "server_count", "rank_count"] {
        if one[key] != other[key] {
            diff.fields.push((key.to_owned(), one[key].to_string(), other[key].to_string()));
        }
    }
    Ok(diff)
}

fn moved(before: &Members, after: &Members) -> Vec<(u64, Seat, Seat)> {
    let by_rank = |members: &Members| -> BTreeMap<u64, Seat> {
        members.iter().map(|(seat, (rank, _))| (*rank, seat.clone())).collect()
    };
    let (before, after) = (by_rank(before), by_rank(after));
    let pairs = before.into_iter().filter_map(|(rank, from)| Some((rank, from, after.get(&rank)?)));
    let moved = pairs.filter(|(_, from, to)| from.server != to.server);
    moved.map(|(rank, from, to)| (rank, from, to.clone())).collect()
}

fn read(text: &str, which: &'static str) -> Result<(Json, Members), DiffError> {
    let json: Json = serde_json::from_str(text)
        .map_err(|error| DiffError::NotJson { which, message: error.to_string() })?;
    let members = members(&json).ok_or(DiffError::Unknown { which })?;
    Ok((json, members))
}

/// The members of a table of any known format.
pub(crate) fn members(json: &Json) -> Option<Members> {
    let list = |json: &'_ Json| json.as_array().cloned().unwrap_or_default();
    let text = |json: &Json| match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut members = Members::new();
    let mut position = 0;
    let mut add = |server: &str, device: &Json| {
        let seat = Seat { server: server.to_owned(), device: text(&device["device_id"]) };
        // Where ranks are not written, the position is the rank.
        let rank = text(&device["rank_id"]).parse().unwrap_or(position);
        members.insert(seat, (rank, text(&device["device_ip"])));
        position += 1;
    };
    let mut servers = |servers: &Json, devices: &str| {
        for server in list(servers) {
            let id = text(&server["server_id"]);
            list(&server[devices]).iter().for_each(|device| add(&id, device));
        }
    };
    match format(json)? {
        Format::Concise => servers(&json["server_list"], "device"),
        Format::Legacy => {
            list(&json["group_list"])
                .iter()
                .for_each(|group| servers(&group["instance_list"], "devices"));
        }
        Format::Global => {
            list(&json["server_group_list"])
                .iter()
                .for_each(|group| servers(&group["server_list"], "device"));
        }
        // There are no servers here: the innermost network stands for one.
        Format::Levels => list(&json["rank_list"]).iter().for_each(|rank| {
            add(&text(&rank["level_list"][0]["net_instance_id"]), rank);
        }),
        Format::Disaggregated => {
            for key in ["prefill_device_list", "decode_device_list"] {
                list(&json[key]).iter().for_each(|device| add(&text(&device["server_id"]), device));
            }
        }
    }
    Some(members)
}

// === impl Diff ===

impl Diff {
    /// Whether the tables share everything that is compared.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, from, to) in &self.fields {
            writeln!(f, "~ {name}: {from} -> {to}")?;
        }
        for (seat, rank) in &self.removed {
            writeln!(f, "- {seat} (rank {rank})")?;
        }
        for (seat, rank) in &self.added {
            writeln!(f, "+ {seat} (rank {rank})")?;
        }
        for (seat, from, to) in &self.renumbered {
            writeln!(f, "~ {seat}: rank {from} -> {to}")?;
        }
        for (rank, from, to) in &self.moved {
            writeln!(f, "~ rank {rank}: {from} -> {to}")?;
        }
        for (seat, from, to) in &self.readdressed {
            writeln!(f, "~ {seat}: address {from:?} -> {to:?}")?;
        }
        Ok(())
    }
}

// === impl Seat ===

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} device {}", self.server, self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Device, rank, address.
    type Device<'a> = (&'a str, u32, &'a str);

    fn table(servers: &[(&str, &[Device<'_>])]) -> String {
        let servers: Vec<Json> = servers
            .iter()
            .map(|(id, devices)| {
                let devices: Vec<Json> = devices
                    .iter()
                    .map(|(id, rank, ip)| {
                        serde_json::json!({"device_id": id, "rank_id": rank.to_string(), "device_ip": ip})
                    })
                    .collect();
                serde_json::json!({"server_id": id, "device": devices})
            })
            .collect();
        serde_json::json!({"version": "1.0", "status": "completed", "server_list": servers})
            .to_string()
    }

    #[test]
    fn members_ranks_and_addresses_are_compared() {
        let before =
            table(&[("a", &[("0", 0, "1.1.1.1"), ("1", 1, "1.1.1.2")]), ("b", &[("0", 2, "x")])]);
        let after =
            table(&[("a", &[("0", 1, "1.1.1.1"), ("1", 0, "1.1.1.9")]), ("c", &[("0", 2, "x")])]);
        assert!(diff(&before, &before).unwrap().is_empty());
        let found = diff(&before, &after).unwrap().to_string();
        assert_eq!(
            found,
            "- server b device 0 (rank 2)\n+ server c device 0 (rank 2)\n\
             ~ server a device 0: rank 0 -> 1\n~ server a device 1: rank 1 -> 0\n\
             ~ rank 2: server b device 0 -> server c device 0\n\
             ~ server a device 1: address \"1.1.1.2\" -> \"1.1.1.9\"\n"
        );
    }

    #[test]
    fn tables_of_other_formats_have_members_too() {
        let legacy = r#"{"status":"completed","group_list":[{"instance_list":[{"pod_name":"p","server_id":"a",
            "devices":[{"device_id":"0","device_ip":"1.1.1.1"},{"device_id":"1","device_ip":"1.1.1.2"}]}]}]}"#;
        let concise = table(&[("a", &[("0", 0, "1.1.1.1"), ("1", 1, "1.1.1.2")])]);
        let found = diff(legacy, &concise).unwrap();
        assert_eq!(found.fields, [("version".to_owned(), "null".to_owned(), "\"1.0\"".to_owned())]);
        assert_eq!(Diff { fields: Vec::new(), ..found }, Diff::default());
    }

    #[test]
    fn what_is_no_table_is_refused() {
        assert!(matches!(diff("{", "{}"), Err(DiffError::NotJson { which: "first", .. })));
        let good = table(&[]);
        assert_eq!(diff(&good, "{}"), Err(DiffError::Unknown { which: "second" }));
    }
}
