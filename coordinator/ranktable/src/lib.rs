//! Rank tables: what a group of pods holds becomes one table that says which device has which rank.
//!
//! This crate decides ranks and writes tables. It never does I/O and reads no clock: pods, templates and times are
//! arguments, so the same input always gives the same bytes.
//!
//! ```text
//!   template ConfigMap ──template──┐
//!   pods ─────────────────pod──────┼─▶ parse ─▶ group ─▶ order ─▶ number ─▶ render ─▶ table.json
//!   last numbering, topology ──────┘                                                     │
//!                                             diff (two tables)   migrate (others' tables)   check (HCCL's rules)
//!
//!   a new pod ──inject──▶ JSON patch: volume, mounts, the container that waits for the table
//! ```
//!
//! ```
//! use muster_ranktable::{ConfigMap, Pod, Request, TableTemplate};
//!
//! let template = ConfigMap::read(r#"
//! metadata: {name: plain}
//! data:
//!   filename: hosts.txt
//!   ranktable-template: '{{range .Servers}}{{.ServerId}}:{{range .Devices}} {{.RankId}}{{end}}{{end}}'
//! "#)?;
//! let template = TableTemplate::read(&template, None).map_err(|error| error.to_string())?;
//! let pod = serde_json::json!({"metadata": {"name": "w-0", "annotations": {"ascend.com/ranktable":
//!     r#"{"pod_name":"w-0","server_id":"10.0.0.1","devices":[{"device_id":"0"},{"device_id":"1"}]}"#}}});
//! let pod: Pod = serde_json::from_value(pod).map_err(|error| error.to_string())?;
//!
//! let request = Request { changed: "2026-01-02T03:04:05Z", ..Request::default() };
//! let rendered = template.render(&[pod], &request).map_err(|error| error.to_string())?;
//! assert_eq!(rendered.text, "10.0.0.1: 0 1");
//! # Ok::<(), String>(())
//! ```
//!
//! Start reading at `render`, then `order`.

mod check;
mod diff;
mod group;
pub mod inject;
pub mod migrate;
pub mod names;
mod number;
mod order;
mod parse;
mod pod;
mod render;
mod short;
mod table;
mod template;
mod topology;

/// No rank group has more pods.
pub const MOST_PODS: usize = 100_000;

pub use check::{Chip, Facts, Finding, Format, Severity, Spot, check, format};
pub use diff::{Diff, DiffError, Seat, diff};
pub use group::GroupError;
pub use number::{Numbering, NumberingError, Stability};
pub use order::{Order, Place, Topology, is_decimal, numeric};
pub use parse::{DeviceData, DeviceMore, ParseError, PodData};
pub use pod::{Pod, PodList, Post};
pub use render::{RenderError, Rendered, Request};
pub use short::Short;
pub use table::{DeviceWithRank, PodInfo, Rank, RoleInfo, ServerInfo, SuperPodInfo, Table, Tree};
pub use template::{ConfigMap, Level, NAMESPACE, STANDARD_PARSER, TableTemplate, TemplateError};
