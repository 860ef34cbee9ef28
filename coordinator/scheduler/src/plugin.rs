//! Plugins: what decides the order of things, where they fit, and who may take whose place.

pub mod proportion;
