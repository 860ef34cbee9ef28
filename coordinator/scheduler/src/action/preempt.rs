//! stub
use crate::session::Session;
pub(super) fn run(_: &mut Session<'_>) {}
