//! What both programs are made of: a log whose level can be changed, a small HTTP server with what it answers and what
//! its pages look like, who may connect to a listener, whether loops are alive, a client of the Kubernetes API, the life of a program
//! from its start to a signal, lengths of time.
//!
//! Nothing in here knows what Muster is for.

pub mod answer;
pub mod api_server;
mod causes;
pub mod connections;
pub mod duration;
pub mod heartbeat;
pub mod log;
pub mod owner;
pub mod page;
pub mod parts;
pub mod run;
pub mod serve;

pub use causes::causes;
