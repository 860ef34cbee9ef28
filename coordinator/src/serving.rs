//! What a coordinator serves: certificates, HTTPS, webhooks, the status page.

pub mod body;
pub mod certs;
pub mod https;
pub mod status;
pub mod webhook;
