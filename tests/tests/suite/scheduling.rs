//! Pods that Muster's scheduler places.

mod gangs;
mod reasons;
mod room;
mod sharing;
