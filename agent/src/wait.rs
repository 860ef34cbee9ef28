//! Waiting for a table.
