//! How the devices of one logic learner are spread over pods.

/// The most frequent count among nodes; of several, the largest. If most have none, the largest of all.
pub fn majority(nodes: &[u64]) -> u64 {
    let mut counts = std::collections::BTreeMap::<u64, usize>::new();
    for count in nodes {
        *counts.entry(*count).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(count, nodes)| (**nodes, **count));
    match most.map(|(count, _)| *count) {
        Some(0) | None => nodes.iter().copied().max().unwrap_or_default(),
        Some(count) => count,
    }
}

/// The devices of each pod: one pod if a node holds all, else as few as there can be. Nothing if no node has any.
pub fn shares(gpus: u64, majority: u64) -> Vec<u64> {
    if majority == 0 {
        return Vec::new();
    }
    let mut shares = Vec::new();
    let mut left = gpus;
    while left > 0 {
        let share = left.min(majority);
        shares.push(share);
        left -= share;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pod_is_larger_than_a_usual_node() {
        let cases: [(&[u64], u64, u64, &[u64]); 6] = [
            (&[8, 8, 4, 0], 10, 8, &[8, 2]),
            (&[8, 8, 4, 0], 8, 8, &[8]),
            (&[4, 8], 16, 8, &[8, 8]),
            (&[0, 0, 2], 5, 2, &[2, 2, 1]),
            (&[0, 0], 5, 0, &[]),
            (&[], 5, 0, &[]),
        ];
        for (nodes, gpus, usual, expected) in cases {
            assert_eq!(majority(nodes), usual, "{nodes:?}");
            assert_eq!(shares(gpus, usual), expected, "{nodes:?} {gpus}");
        }
    }
}
