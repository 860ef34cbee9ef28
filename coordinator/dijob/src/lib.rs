//! DIJob and the DI server: what a reinforcement-learning job asks for, and what is to be done about it. No clock, no
//! I/O, no async, no randomness but a seed.
//!
//! ```text
//!   DIJob (api) + its pods, services ──▶ operator: one pass ──▶ steps, events, status ──▶ the coordinator does them
//!
//!   request of a running coordinator ─▶ server ─▶ an answer, or work: one write after another ─▶ an answer
//!                                         ▲
//!                                       view: jobs, pods, nodes, the AggregatorConfig
//! ```
//!
//! The operator makes the job's coordinator pod and a service for every pod. All other pods are made by the server, when
//! the job's coordinator asks for them. Start reading at [`operator`] and [`server`].

pub mod admission;
pub mod api;
pub mod clean;
pub mod copy;
pub mod crd;
pub mod gang;
pub mod gpu;
pub mod make;
pub mod names;
pub mod operator;
pub mod pod;
pub mod ranks;
pub mod role;
pub mod server;
pub mod service;
pub mod suffix;
