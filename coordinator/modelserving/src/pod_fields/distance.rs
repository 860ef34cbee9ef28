//! Which of some names was meant.

/// The nearest name, if it is so near that a typing error explains the difference: another case, or one letter in five too
/// many, too few, wrong or swapped, at most two.
pub(super) fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = key.to_lowercase();
    let bearable = match lower.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    let near = names.map(|name| (distance(&lower, &name.to_lowercase()), name));
    near.filter(|(far, _)| *far <= bearable).min().map(|(_, name)| name)
}

/// Letters to insert, to drop, to replace or to swap with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // Names that are so different in length are not near, and names from outside may be very long.
    if one.len().abs_diff(other.len()) > 2 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, against) in other.iter().enumerate() {
            let same = usize::from(letter != against);
            let mut best = (last[j] + same).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == other[j - 1] && one[i - 1] == *against {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_near_and_another_word_is_not() {
        let names = ["nodeSelector", "nodeName", "resources", "env", "args", "tolerations"];
        let meant = |key| nearest(key, names.into_iter());
        for (key, name) in [
            ("nodeSelectr", "nodeSelector"),
            ("nodeselector", "nodeSelector"),
            ("nodeSeletcor", "nodeSelector"),
            ("resource", "resources"),
            ("arg", "args"),
            ("envs", "env"),
            ("toleration", "tolerations"),
        ] {
            assert_eq!(meant(key), Some(name), "{key}");
        }
        let long = "x".repeat(100_000);
        for other in ["", "no", "selector", "workloadRef", "nodeAffinity", long.as_str()] {
            assert_eq!(meant(other), None, "{other:.20}");
        }
    }
}
