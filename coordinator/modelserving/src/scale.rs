//! Who goes first when there are too many.

use std::cmp::Reverse;

/// One that may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its place in the list that it comes from.
    pub at: usize,
    /// It keeps the old template, and goes only when nobody else is left.
    pub kept: bool,
    /// Whether the instance serves.
    pub running: bool,
    /// What it costs to remove it: the sum over its pods.
    pub cost: i64,
    /// Ordinal of the instance.
    pub ordinal: i64,
}

/// The places of those that go, in the order in which they go: who does not serve, who costs least, who came last.
pub fn leaving(mut candidates: Vec<Candidate>, count: usize) -> Vec<usize> {
    candidates.sort_by_key(|it| (it.kept, it.running, it.cost, Reverse(it.ordinal)));
    candidates.iter().take(count).map(|candidate| candidate.at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> Vec<Candidate> {
        let of =
            |at: usize| Candidate { at, running: true, ordinal: at as i64, ..Candidate::default() };
        (0..4).map(of).collect()
    }

    #[test]
    fn the_last_goes_first() {
        assert_eq!(leaving(four(), 2), [3, 2]);
    }

    #[test]
    fn who_does_not_serve_goes_before_the_cheap_and_the_cheap_before_the_last() {
        let mut list = four();
        list[0].running = false;
        list[1].cost = -5;
        list[3].cost = 100;
        assert_eq!(leaving(list, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn who_is_kept_goes_only_when_nobody_else_is_left() {
        let mut list = four();
        list[0].kept = true;
        list[0].running = false;
        list[1].kept = true;
        assert_eq!(leaving(list.clone(), 2), [3, 2]);
        assert_eq!(leaving(list, 4), [3, 2, 0, 1]);
    }
}
