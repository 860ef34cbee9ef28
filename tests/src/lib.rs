//! The whole system in one process, and the tables that keep it honest.

pub mod behaviour;
