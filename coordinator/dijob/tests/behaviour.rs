//! What the recorded cases do not show: decisions of our own, and what must hold between two requests.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

#[path = "behaviour/crds.rs"]
mod crds;
#[path = "behaviour/laws.rs"]
mod fed;
#[path = "behaviour/names.rs"]
mod names;
#[path = "behaviour/operator.rs"]
mod operator;
#[path = "behaviour/server.rs"]
mod server;
#[path = "behaviour/trust.rs"]
mod trust;
#[path = "behaviour/world.rs"]
mod world;
