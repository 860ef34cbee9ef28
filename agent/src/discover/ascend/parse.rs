//! What Ascend's files and tools print, as values.
//!
//! Pure: text in, values out. Nothing here knows where a text comes from. Tables are found by the words in their
//! heads, never by widths, because every driver lays them out anew. A text that is something else yields `None` or
//! an empty answer, never a guess. What comes out is bounded: at most [`MOST`] devices, words of [`WORD`] characters.

pub mod conf;
pub mod hccn;
pub mod info;
pub mod install;
pub mod mapping;
pub mod spod;
#[cfg(test)]
mod tests;
pub mod topo;

use std::net::IpAddr;

/// How many devices a node may have; larger ids are no ids.
pub const MOST: usize = 1024;

/// How long a name may be.
pub const WORD: usize = 64;

/// How many lines of a text are looked at.
const LINES: usize = 64 * 1024;

/// The lines of a text without control characters: tabs are blanks, others vanish.
fn lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().take(LINES).map(|line| {
        line.chars()
            .filter(|c| !c.is_control() || *c == '\t')
            .map(|c| if c == '\t' { ' ' } else { c })
            .collect()
    })
}

/// The id of a device.
fn id(word: &str) -> Option<u32> {
    let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    word.parse().ok().filter(|id| digits && (*id as usize) < MOST)
}

/// A name, cut short.
fn name(words: &str) -> String {
    words.trim().chars().take(WORD).collect()
}

/// `key : value`, without blanks around them.
fn pair(line: &str) -> Option<(&str, &str)> {
    line.split_once(':').map(|(key, value)| (key.trim(), value.trim()))
}

/// An address that a peer could send to.
pub fn address(text: &str) -> Option<IpAddr> {
    text.trim().parse().ok().filter(is_reachable)
}

/// Whether a peer could send to it: not `0.0.0.0`, not loopback, not for many.
pub fn is_reachable(ip: &IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || broadcast)
}
