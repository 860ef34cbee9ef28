//! What both programs are made of: a log whose level can be changed, a small HTTP server, lengths of time.
//!
//! Nothing in here knows what Muster is for.

pub mod duration;
pub mod log;
pub mod serve;
