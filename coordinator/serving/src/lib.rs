//! What a coordinator serves over HTTPS, whatever the feature: certificates, the server of webhooks, bodies of bounded size.
//!
//! ```text
//!   certs ──certificate──▶ https ◀──TLS── API server, trainers
//!     └── CA bundle ──▶ webhook::configure     └──▶ webhook::server ──▶ review ──▶ handlers of features
//! ```
//!
//! Every coordinator serves; only the leader renews certificates and tells the API server whom to trust.

pub mod body;
pub mod certs;
pub mod https;
pub mod names;
pub mod webhook;
