//! Sets of completion indexes, written as `0-2,5`.

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(BTreeSet<usize>);

// === impl Indexes ===

impl Indexes {
    /// Reads `0-2,5`; what is malformed or not below `completions` is left out.
    pub fn parse(written: &str, completions: usize) -> Self {
        let mut set = BTreeSet::new();
        for part in written.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
                set.extend(first..=last.min(completions.saturating_sub(1)));
            }
        }
        set.retain(|index| *index < completions);
        Self(set)
    }

    /// Whether an index is in the set.
    pub fn has(&self, index: usize) -> bool {
        self.0.contains(&index)
    }

    /// Adds an index; false if it was there.
    pub fn insert(&mut self, index: usize) -> bool {
        self.0.insert(index)
    }

    /// The number of indexes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are in both.
    pub fn shared(&self, other: &Self) -> usize {
        self.0.intersection(&other.0).count()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl FromIterator<usize> for Indexes {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_ranges_and_read_back() {
        for (set, written) in [
            (vec![], ""),
            (vec![0], "0"),
            (vec![0, 1], "0,1"),
            (vec![0, 1, 2, 5], "0-2,5"),
            (vec![1, 3, 4, 7, 8, 9], "1,3,4,7-9"),
        ] {
            let indexes: Indexes = set.into_iter().collect();
            assert_eq!(indexes.to_string(), written);
            assert_eq!(Indexes::parse(written, 100), indexes);
        }
    }

    #[test]
    fn indexes_beyond_the_completions_and_nonsense_are_left_out() {
        assert_eq!(Indexes::parse("0-9,x,12", 4).to_string(), "0-3");
    }
}
