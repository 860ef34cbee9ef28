//! Addresses of the host.
