//! Which pods a pass makes and which it removes.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp};

use super::super::super::json;
use super::super::indexes::Indexes;
use super::super::pod::JobPod;
use super::super::policy;
use super::super::template::NewPod;
use super::{JobReconcile, MOST_AT_ONCE, Plan, Removal};

const FIRST_BACKOFF: i64 = 10;
const LONGEST_BACKOFF: i64 = 600;

// === impl JobReconcile ===

impl JobReconcile<'_> {
    /// The last failed pod of each index that still waits for its successor: it keeps the
    /// finalizer, since the successor takes over its count of failures.
    pub(super) fn held<'p>(
        &'p self,
        active: &[&JobPod],
        done: &Indexes,
        lost: &Indexes,
    ) -> BTreeMap<usize, &'p JobPod> {
        let running: HashSet<usize> = active.iter().filter_map(|p| p.index).collect();
        let mut held: BTreeMap<usize, &JobPod> = BTreeMap::new();
        for pod in self.pods.iter().filter(|p| p.tracked && self.has_place(p) && self.failed(p)) {
            let Some(index) = pod.index else { continue };
            if done.has(index) || lost.has(index) || running.contains(&index) {
                continue;
            }
            let later = held.get(&index).is_none_or(|last| {
                last.all_failures() <= pod.all_failures() && last.finished <= pod.finished
            });
            if later {
                held.insert(index, pod);
            }
        }
        held
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn manage(
        &self,
        active: &[&JobPod],
        succeeded: i64,
        terminating: usize,
        done: &Indexes,
        lost: Option<&Indexes>,
        held: &BTreeMap<usize, &JobPod>,
        plan: &mut Plan,
    ) {
        if self.suspended() {
            plan.delete =
                active.iter().map(|p| Removal { name: p.name.clone(), counted: false }).collect();
            return;
        }
        let parallelism = json::int(self.job, "/spec/parallelism").unwrap_or(1);
        let parallelism = usize::try_from(parallelism).unwrap_or(0);
        let succeeded = usize::try_from(succeeded).unwrap_or(0);
        let want = match self.completions {
            None if succeeded > 0 => active.len(),
            None => parallelism,
            Some(wanted) => wanted.saturating_sub(succeeded).min(parallelism),
        };
        plan.delete = self.surplus(active, active.len().saturating_sub(want));
        plan.delete.truncate(MOST_AT_ONCE);
        if !plan.delete.is_empty() {
            return;
        }
        let leaving = if self.only_failed_replaced { terminating } else { 0 };
        let missing = want.saturating_sub(leaving + active.len()).min(MOST_AT_ONCE);
        if missing == 0 {
            return;
        }
        let mut sooner = |at: Timestamp| {
            plan.again = Some(plan.again.map_or(at, |have| have.min(at)));
        };
        if self.per_index.is_none()
            && let Some(until) = wait_until(plan.backoff.failures, plan.backoff.last)
            && until > self.now
        {
            sooner(until);
            return;
        }
        if !self.indexed {
            plan.create = vec![NewPod { index: None, failures: None }; missing];
            return;
        }
        let mut taken: HashSet<usize> = active.iter().filter_map(|p| p.index).collect();
        if self.only_failed_replaced {
            let leaving = self.pods.iter().filter(|p| p.is_terminating());
            taken.extend(leaving.filter_map(|p| p.index));
        }
        let free = (0..self.completions.unwrap_or(0)).filter(|i| {
            !taken.contains(i) && !done.has(*i) && !lost.is_some_and(|lost| lost.has(*i))
        });
        let mut create = Vec::new();
        let mut earliest: Option<Timestamp> = None;
        for index in free.take(missing) {
            let before = held.get(&index);
            let until = before.and_then(|pod| {
                wait_until(u32::try_from(pod.all_failures() + 1).unwrap_or(1), Some(pod.finished))
            });
            match until {
                Some(until) if until > self.now => {
                    earliest = Some(earliest.map_or(until, |have| have.min(until)));
                }
                _ => create.push(NewPod { index: Some(index), failures: self.inherit(before) }),
            }
        }
        if let Some(earliest) = earliest {
            sooner(earliest);
        }
        plan.create = create;
    }

    pub(super) fn inherit(&self, before: Option<&&JobPod>) -> Option<(i64, i64)> {
        self.per_index?;
        let Some(pod) = before else { return Some((0, 0)) };
        let (counted, ignored) = pod.failures;
        Some(match policy::judge(self.job, pod).counts() {
            true => (counted + 1, ignored),
            false => (counted, ignored + 1),
        })
    }

    /// Pods that must go: without a place, second of an index, then the least far on.
    pub(super) fn surplus(&self, active: &[&JobPod], at_least: usize) -> Vec<Removal> {
        let mut by_progress: Vec<&JobPod> = active.to_vec();
        by_progress.sort_by_key(|p| (p.bound, p.phase, p.ready, std::cmp::Reverse(p.name.clone())));
        let mut gone = Vec::new();
        let mut left = Vec::new();
        if self.indexed {
            let mut kept = HashSet::new();
            // From the furthest on: the first of an index stays.
            for pod in by_progress.iter().rev() {
                match pod.index.filter(|_| self.has_place(pod)) {
                    Some(index) if kept.insert(index) => left.push(*pod),
                    _ => gone.push(*pod),
                }
            }
            left.reverse();
        } else {
            left = by_progress;
        }
        let more = at_least.saturating_sub(gone.len()).min(left.len());
        gone.extend(left.into_iter().take(more));
        gone.into_iter().map(|p| Removal { name: p.name.clone(), counted: false }).collect()
    }
}

fn wait_until(failures: u32, last: Option<Timestamp>) -> Option<Timestamp> {
    let wait = match failures {
        0 => return None,
        n => FIRST_BACKOFF.saturating_mul(1 << (n - 1).min(10)).min(LONGEST_BACKOFF),
    };
    last?.saturating_add(SignedDuration::from_secs(wait)).ok()
}
