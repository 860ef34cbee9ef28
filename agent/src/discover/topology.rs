//! How everything is joined.
