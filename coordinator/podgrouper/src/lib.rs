//! How pods become PodGroups of the KAI dialect (`scheduling.run.ai/v2alpha2`), and what is admitted beside them.
//! No clock, no I/O, no async.
//!
//! ```text
//!   pod ──▶ owners (chain, by ownerReferences) ──▶ kinds (a table) ──▶ draft ──▶ write: created, updated, unchanged
//!              │                                      │                             │
//!              └──────────── objects: asked by key, or refused ─────────────────────┘
//!
//!   Queue, PodGroup, Topology, Pod ──▶ admission: refused by class, warned, or changed
//! ```
//!
//! Start at [`group::group`]. A new kind is one file in `kinds/` and one line in [`kinds`].

pub mod admission;
mod base;
pub mod config;
mod defaults;
pub mod draft;
pub mod error;
pub mod group;
pub mod kinds;
pub mod names;
pub mod object;
pub mod objects;
mod owners;
pub mod write;
mod yaml;

pub use config::Config;
pub use error::{Class, GroupError};
pub use group::{Action, Outcome, group};
pub use object::Object;
pub use objects::{Given, Key, Objects, Refusal};
