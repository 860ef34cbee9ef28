//! The coordinator, as far as it is built: the hub, where every agent's stream ends.
//!
//! The hub knows each node's hardware and pods as its agent reports them, and brings tables to the nodes that
//! host a group's pods. It decides nothing about tables; controllers do, through [`hub::Hub`]. Start reading there.

pub mod hub;
