//! Webhooks: one HTTPS server for all kinds.
