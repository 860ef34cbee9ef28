//! How long a key rests after a failure: the one policy of all controllers.

use std::time::Duration;

/// The pause after the first failure. Each further one is twice as long.
pub const FIRST: Duration = Duration::from_millis(20);

/// No pause is longer, but for the jitter.
pub const LONGEST: Duration = Duration::from_secs(120);

/// A change of the cluster cuts a pause short, but not below this: what fails and writes, and so wakes itself, must not spin.
pub const SHORTEST_CUT: Duration = Duration::from_secs(1);

/// How long a key rests whose reconcile has panicked, whatever changes: it would most likely panic again.
pub const PANICKED: Duration = Duration::from_secs(30);

/// A pause is longer by up to this part of it, so that keys that failed together are not tried together.
const JITTER: f64 = 0.1;

/// The pause after so many failures in a row. `fraction` is a random number from 0 to 1.
pub fn pause(failures: u32, fraction: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let pause = (FIRST * 2u32.pow(doublings)).min(LONGEST);
    pause.mul_f64(1.0 + JITTER * fraction.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_vary_by_a_tenth() {
        assert_eq!([1, 2, 3].map(|failures| pause(failures, 0.0)), [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!(pause(14, 0.0), LONGEST);
        assert_eq!(pause(u32::MAX, 0.0), LONGEST);
        assert_eq!(pause(14, 1.0), LONGEST + LONGEST / 10);
        assert_eq!(pause(14, 7.0), LONGEST + LONGEST / 10, "a fraction that is none");
    }
}
