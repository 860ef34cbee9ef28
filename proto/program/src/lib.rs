//! What both programs are made of: a log whose level can be changed, a small HTTP server and what its pages look like, lengths of time.
//!
//! Nothing in here knows what Muster is for.

pub mod duration;
pub mod log;
pub mod page;
pub mod serve;
