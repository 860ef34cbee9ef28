//! Names of pods: five characters that nobody else has, from a seed.

const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Suffixes without end; the same seed gives the same ones.
#[derive(Clone, Debug)]
pub struct Suffixes(u64);

// === impl Suffixes ===

impl Suffixes {
    /// From this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub fn take(&mut self) -> String {
        let mut number = self.number();
        let mut suffix = String::with_capacity(5);
        for _ in 0..5 {
            let at = usize::try_from(number % 27).unwrap_or_default();
            suffix.push(char::from(ALPHABET.get(at).copied().unwrap_or(b'b')));
            number /= 27;
        }
        suffix
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_follow_from_the_seed_and_hardly_ever_repeat() {
        let all = |seed| {
            let mut suffixes = Suffixes::new(seed);
            (0..1000).map(|_| suffixes.take()).collect::<Vec<_>>()
        };
        assert_eq!(all(7), all(7));
        assert_ne!(all(7), all(8));
        let distinct: std::collections::BTreeSet<_> = all(7).into_iter().collect();
        assert!(distinct.len() > 990, "{}", distinct.len());
        let known = |text: &String| text.len() == 5 && text.bytes().all(|c| ALPHABET.contains(&c));
        assert!(distinct.iter().all(known));
    }
}
