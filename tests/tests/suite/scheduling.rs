//! Pods that Muster's scheduler places.

mod faults;
mod gangs;
mod kinds;
pub mod ledger;
mod limits;
mod reasons;
mod room;
mod sharing;
mod trouble;
mod vanished;
