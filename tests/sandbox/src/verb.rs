//! What can be done with a resource: one file per verb.

pub mod body;
pub mod change;
pub mod create;
pub mod delete;
mod duplicates;
mod listing;
pub mod read;
mod settle;
pub mod update;
pub mod watch;
pub mod write;
