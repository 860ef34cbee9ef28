//! The whole system in one process: the [`World`] that tests and the demo share, and the table that keeps
//! the sandbox honest.
//!
//! ```text
//!   tests/tests/suite/*.rs          cargo demo
//!            │                          │ demo: the same, narrated
//!            └────────────┬─────────────┘
//!                       World ── create, until, pods, devices
//!                         │
//!          ┌──────────────┴───────────────┐
//!       Sandbox                      a real cluster (MUSTER_KUBECONFIG)
//!   server, controllers          its own server and controllers,
//!   and nodes in memory          our simulated nodes as clients
//! ```
//!
//! It decides nothing about jobs or devices: it starts the parts, says what is wanted, and looks at what came of
//! it. Start reading at [`world`]; [`behaviour`] is the table of single requests that runs on both servers.

pub mod behaviour;
pub mod bench;
pub mod chart;
pub mod delivery;
pub mod demo;
pub mod dijobs;
pub mod footprint;
pub mod installed;
pub mod node;
pub mod placements;
pub mod reference;
pub mod servings;
pub mod trainjobs;
pub mod world;

pub use world::World;
