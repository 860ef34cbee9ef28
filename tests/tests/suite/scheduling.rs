//! Pods that Muster's scheduler places.

mod faults;
mod gangs;
mod kinds;
mod late;
pub mod ledger;
mod limits;
pub mod live;
mod past;
mod reasons;
mod room;
mod sharing;
mod transitions;
mod trouble;
mod vanished;
mod visible;
mod zones;
