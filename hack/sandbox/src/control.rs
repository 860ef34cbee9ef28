//! Small controllers for what a real cluster brings along.

pub mod cache;
pub mod jobset;
pub mod kind;
pub mod queue;
pub mod rest;

mod job;
mod json;
