//! What both programs are made of: a log whose level can be changed, a small HTTP server with what it answers and what
//! its pages look like, parts and signals, lengths of time.
//!
//! Nothing in here knows what Muster is for.

pub mod answer;
mod causes;
pub mod duration;
pub mod log;
pub mod page;
pub mod parts;
pub mod serve;

pub use causes::causes;
