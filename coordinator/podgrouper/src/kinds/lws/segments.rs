//! Segments of a LeaderWorkerSet's group: so many workers near each other.

use super::{LEADER, WORKERS, index_error, is_leader};
use crate::base::Context;
use crate::draft::{SubGroup, Topology};
use crate::error::{Class, GroupError};
use crate::kinds::number;
use crate::kinds::pytorch::MOST_SEGMENTS;
use crate::names;
use crate::object::Object;

const TEMPLATE: [&str; 3] = ["spec", "leaderWorkerTemplate", "workerTemplate"];
const POLICY: [&str; 3] = ["spec", "leaderWorkerTemplate", "subGroupPolicy"];

/// How a group is cut.
pub(super) struct Segments<'a> {
    cx: &'a Context<'a>,
    /// Pods of a segment.
    size: i32,
    /// Pods of the group.
    pods: i32,
    leader: Leader,
    topology: Option<Topology>,
}

/// Where the leader is.
enum Leader {
    /// In the first segment, as a part of it.
    Within,
    /// Beside all segments.
    Beside,
    /// Nowhere in particular: the policy is unknown.
    Anywhere,
}

/// How a group of so many pods is cut; nothing if it is not.
pub(super) fn read<'a>(
    cx: &'a Context<'a>,
    top: &Object,
    pods: i32,
) -> Result<Option<Segments<'a>>, GroupError> {
    let root = top.root();
    let error = |detail: String| {
        let remedy = "write a whole number from 2 to the group's size";
        root.error(Class::SegmentInvalid, &POLICY, detail, remedy)
    };
    let size = match root.int(&[&POLICY[..], &["subGroupSize"]].concat())? {
        Some(size) => size,
        None => {
            let path = [&TEMPLATE[..], &["metadata", "annotations", names::SEGMENT_SIZE]].concat();
            let in_template = || root.text(&path).ok().flatten();
            let Some(text) = top.annotation(names::SEGMENT_SIZE).or_else(in_template) else {
                return Ok(None);
            };
            number(text).ok_or_else(|| error(format!("{text:?} is no size of a segment")))?
        }
    };
    let fits = i32::try_from(size).ok().filter(|size| (2..=pods).contains(size));
    let size = fits.ok_or_else(|| error(format!("segments of {size} in a group of {pods}")))?;
    let leader = match root.text(&[&POLICY[..], &["subGroupPolicyType"]].concat())? {
        None | Some("LeaderWorker") => Leader::Within,
        Some("LeaderExcluded") => Leader::Beside,
        Some(_) => Leader::Anywhere,
    };
    let topology = topology(cx, top)?;
    let segments = Segments { cx, size, pods, leader, topology };
    if i64::from(segments.count()) > MOST_SEGMENTS {
        return Err(error(format!("there would be {} segments", segments.count())));
    }
    if matches!(segments.leader, Leader::Beside) && !segments.leader_is_extra() {
        let detail = format!("{} workers cannot be cut in segments of {size}", pods - 1);
        return Err(error(detail));
    }
    Ok(Some(segments))
}

fn topology(cx: &Context<'_>, top: &Object) -> Result<Option<Topology>, GroupError> {
    let root = top.root();
    if root.map(&TEMPLATE)?.is_none() {
        return Ok(None);
    }
    let word = |key: &str| {
        let path = [&TEMPLATE[..], &["metadata", "annotations", key]].concat();
        let on_pod = cx.pod.annotation(key).filter(|value| !value.is_empty());
        on_pod.or_else(|| root.text(&path).ok().flatten()).unwrap_or_default().to_owned()
    };
    let mut topology = word(names::TOPOLOGY);
    if topology.is_empty() {
        topology = top.annotation(names::TOPOLOGY).unwrap_or_default().to_owned();
    }
    let (required, preferred) = (word(names::SEGMENT_REQUIRED), word(names::SEGMENT_PREFERRED));
    Ok(Some(Topology { topology, required, preferred }).filter(Topology::is_asked))
}

// === impl Segments ===

impl Segments<'_> {
    /// Whether the workers alone fill their segments, so that the leader comes on top.
    fn leader_is_extra(&self) -> bool {
        (self.pods - 1) % self.size == 0
    }

    fn segment(&self, index: i32) -> i32 {
        match self.leader_is_extra() {
            true => (index - 1).max(0) / self.size,
            false => index / self.size,
        }
    }

    fn count(&self) -> i32 {
        self.segment(self.pods - 1) + 1
    }

    /// How many pods a segment has, the leader apart where it comes on top.
    fn pods_in(&self, segment: i32) -> i32 {
        let all = if self.leader_is_extra() { self.pods - 1 } else { self.pods };
        (all - segment * self.size).min(self.size)
    }

    /// The parts of the group, and the part of the pod.
    pub(super) fn parts(&self, index: Option<i64>) -> Result<(Vec<SubGroup>, String), GroupError> {
        let index = index.and_then(|index| i32::try_from(index).ok());
        let index = index.filter(|index| (0..self.pods).contains(index)).ok_or_else(|| {
            index_error(self.cx, format!("the pod is none of the {} of its group", self.pods))
        })?;
        let name = |at: i32| format!("segment-{at}");
        let leaf = |at: i32| SubGroup::leaf(name(at), self.pods_in(at)).near(self.topology.clone());
        let mut parts: Vec<SubGroup> = (0..self.count()).map(leaf).collect();
        let mut member = name(self.segment(index));
        match self.leader {
            Leader::Anywhere => {}
            Leader::Beside => {
                parts.insert(0, SubGroup::leaf(LEADER, 1));
                if is_leader(self.cx) {
                    member = LEADER.to_owned();
                }
            }
            Leader::Within => {
                let workers = self.pods_in(0) - i32::from(!self.leader_is_extra());
                let first = name(0);
                if member == first {
                    member = if is_leader(self.cx) { LEADER } else { WORKERS }.to_owned();
                }
                if let Some(part) = parts.first_mut() {
                    *part = SubGroup::inner(first.clone(), 2).near(self.topology.clone());
                }
                parts.push(SubGroup::leaf(LEADER, 1).within(&first));
                parts.push(SubGroup::leaf(WORKERS, workers).within(&first));
            }
        }
        Ok((parts, member))
    }
}
