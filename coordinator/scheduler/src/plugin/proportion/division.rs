//! How much of the cluster is whose: fair shares of a forest of queues.
//!
//! From the top down, each sibling set divides what the queue above it has, for each resource by itself:
//! first everybody's own quota (as far as it is asked for), then what is left by weight, the most important queues
//! first, in whole units; then the rests of rounding, one unit each.

use std::cmp::Ordering;

use jiff::Timestamp;

/// An unlimited amount.
pub const UNLIMITED: f64 = -1.0;

/// A queue that claims its share.
#[derive(Clone, Debug)]
pub struct Claimant<'a, const N: usize> {
    /// Its name: the last that breaks a tie.
    pub name: &'a str,
    /// The place of the queue above it in the list.
    pub parent: Option<usize>,
    /// When it was made: the earlier one wins a tie.
    pub created: Option<Timestamp>,
    /// Queues that are more important divide what is left before others.
    pub priority: i64,
    /// What is its own; -1 is without end.
    pub deserved: [f64; N],
    /// What it cannot go above; -1 is without end.
    pub limit: [f64; N],
    /// Its weights when what is left is divided.
    pub weight: [f64; N],
    /// What its pods ask for.
    pub request: [f64; N],
    /// What it has used of late, as a part of the cluster.
    pub usage: [f64; N],
}

/// What breaks ties between queues.
#[derive(Clone, Copy)]
struct Named<'a> {
    name: &'a str,
    created: Option<Timestamp>,
    priority: i64,
}

/// One queue and one resource while they are divided.
struct Part<'a> {
    claimant: Named<'a>,
    deserved: f64,
    limit: f64,
    weight: f64,
    request: f64,
    usage: f64,
    share: f64,
    /// What rounding has kept from it.
    rest: f64,
}

/// The fair share of each queue. `k` says how much past usage counts. A queue whose parent is not in the list, or
/// that is its own ancestor, gets nothing.
pub fn divide<const N: usize>(
    queues: &[Claimant<'_, N>],
    total: [f64; N],
    k: f64,
) -> Vec<[f64; N]> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); queues.len() + 1];
    for (at, queue) in queues.iter().enumerate() {
        let above = queue.parent.map_or(0, |parent| parent + 1);
        if let Some(siblings) = children.get_mut(above) {
            siblings.push(at);
        }
    }
    for siblings in &mut children {
        siblings.sort_by_key(|&at| queues.get(at).map(|queue| queue.name));
    }
    let mut shares = vec![[0.0; N]; queues.len()];
    let mut open = vec![(0, total)];
    while let Some((above, amounts)) = open.pop() {
        let siblings = children.get_mut(above).map(std::mem::take).unwrap_or_default();
        for (resource, &amount) in amounts.iter().enumerate() {
            let members = siblings.iter().filter_map(|&at| queues.get(at));
            let asked = |queue: &Claimant<'_, N>| queue.request.get(resource) != Some(&0.0);
            // There is nothing, and nobody asks for it: a kind of accelerators that the cluster has not.
            if amount == 0.0 && !members.clone().any(asked) {
                continue;
            }
            let mut parts: Vec<Part<'_>> =
                members.map(|queue| Part::new(queue, resource)).collect();
            divide_one(&mut parts, amount, k);
            for (&at, part) in siblings.iter().zip(&parts) {
                if let Some(share) = shares.get_mut(at).and_then(|share| share.get_mut(resource)) {
                    *share = part.share;
                }
            }
        }
        let below = siblings.into_iter().filter_map(|at| Some((at + 1, *shares.get(at)?)));
        open.extend(below);
    }
    shares
}

/// Accelerators as KAI reports a fair share of them: whole devices from one on, hundredths below.
pub fn reported(devices: f64) -> f64 {
    if devices >= 1.0 { devices.trunc() } else { (devices * 100.0).round() / 100.0 }
}

/// Divides one amount among siblings.
fn divide_one(parts: &mut [Part<'_>], amount: f64, k: f64) {
    let mut left = amount;
    for part in &mut *parts {
        let own = if part.deserved == UNLIMITED { amount } else { part.deserved };
        part.share = own.min(part.requestable());
        left -= part.share;
    }
    if left <= 0.0 {
        return;
    }
    // Stable: the most important first, siblings of one priority by name.
    let mut order: Vec<&mut Part<'_>> = parts.iter_mut().collect();
    order.sort_by_key(|part| std::cmp::Reverse(part.claimant.priority));
    let same = |a: &&mut Part<'_>, b: &&mut Part<'_>| a.claimant.priority == b.claimant.priority;
    for peers in order.chunk_by_mut(same) {
        left = divide_by_weight(peers, left, k);
    }
    for peers in order.chunk_by_mut(same) {
        left = divide_rests(peers, left);
    }
}

/// Divides by weight, in whole units, until nobody is content with less than it could have. What is left.
fn divide_by_weight(peers: &mut [&mut Part<'_>], mut left: f64, k: f64) -> f64 {
    // Each round but the last makes a queue content; the bound is for amounts that cannot be subtracted exactly.
    for _ in 0..2 * peers.len() + 2 {
        let wanting = peers.iter().filter(|part| part.needs() > 0.0);
        let weights: f64 = wanting.map(|part| part.weight).sum();
        if weights == 0.0 {
            break;
        }
        let pull = |part: &Part<'_>| {
            let weight = part.weight / weights;
            (weight + k * (weight - part.usage)).max(0.0)
        };
        let pulls: Vec<f64> = peers.iter().map(|part| pull(part)).collect();
        let hungry = peers.iter().zip(&pulls).filter(|(part, _)| !part.is_content());
        let sum: f64 = hungry.map(|(_, pull)| pull).sum();
        if sum == 0.0 {
            break;
        }
        let (round, mut again) = (left, false);
        for (part, pull) in peers.iter_mut().zip(pulls) {
            if left == 0.0 {
                break;
            }
            if part.is_content() || part.weight == 0.0 {
                continue;
            }
            let (fair, needs) = (round * (pull / sum), part.needs());
            let given = part.take(fair, needs);
            left -= given;
            again |= given != 0.0 && needs < fair;
        }
        if !again || left == 0.0 {
            break;
        }
    }
    left
}

/// Gives one unit to each that rounding has kept something from, the largest rest first. What is left.
fn divide_rests(peers: &mut [&mut Part<'_>], mut left: f64) -> f64 {
    let mut waiting: Vec<&mut Part<'_>> =
        peers.iter_mut().map(|part| &mut **part).filter(|part| part.rest > 0.0).collect();
    waiting.sort_by(|a, b| {
        let rest = b.rest.partial_cmp(&a.rest).unwrap_or(Ordering::Equal);
        rest.then_with(|| a.claimant.created.cmp(&b.claimant.created))
            .then_with(|| a.claimant.name.cmp(b.claimant.name))
    });
    for part in waiting {
        if left <= 0.0 {
            break;
        }
        let given = left.min(1.0);
        part.share += given;
        left -= given;
    }
    left
}

// === impl Part ===

impl<'a> Part<'a> {
    fn new<const N: usize>(claimant: &Claimant<'a, N>, resource: usize) -> Self {
        let of = |amounts: &[f64; N]| amounts.get(resource).copied().unwrap_or_default();
        Self {
            claimant: Named {
                name: claimant.name,
                created: claimant.created,
                priority: claimant.priority,
            },
            deserved: of(&claimant.deserved),
            limit: of(&claimant.limit),
            weight: of(&claimant.weight),
            request: of(&claimant.request),
            usage: of(&claimant.usage),
            share: 0.0,
            rest: 0.0,
        }
    }

    /// What it asks for and may have.
    fn requestable(&self) -> f64 {
        if self.limit == UNLIMITED { self.request } else { self.limit.min(self.request) }
    }

    fn needs(&self) -> f64 {
        (self.requestable() - self.share).max(0.0)
    }

    fn is_content(&self) -> bool {
        self.request <= self.share || (self.limit != UNLIMITED && self.limit <= self.share)
    }

    /// Takes what it needs, or as many whole units as are fair; remembers what rounding has kept from it.
    fn take(&mut self, fair: f64, needs: f64) -> f64 {
        let given = if needs <= fair {
            self.rest = 0.0;
            needs
        } else {
            let whole = fair.floor().max(0.0);
            if fair > whole {
                self.rest = fair - whole;
            }
            whole
        };
        self.share += given;
        given
    }
}
