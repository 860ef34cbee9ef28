//! What groups were last found to be, so that the next pod of an owner need not compare them field by field. Bounded in
//! parts: a draft is as large as they are many.

use std::collections::BTreeMap;

use muster_podgrouper::draft::Draft;

/// Parts of all drafts together, each draft being one as well.
const MOST: usize = 200_000;

/// Drafts of groups, by namespace and name.
#[derive(Debug, Default)]
pub struct Known {
    drafts: BTreeMap<(String, String), Entry>,
    /// Oldest first.
    order: BTreeMap<u64, (String, String)>,
    next: u64,
    parts: usize,
}

#[derive(Debug)]
struct Entry {
    draft: Draft,
    version: String,
    number: u64,
}

// === impl Known ===

impl Known {
    /// The version of the group that says what the draft does.
    pub fn version(&self, draft: &Draft) -> Option<&str> {
        let entry = self.drafts.get(&place(draft))?;
        entry.draft.is_same_group(draft).then_some(&entry.version)
    }

    /// The group of this version says what the draft does. The oldest make room.
    pub fn put(&mut self, draft: &Draft, version: String) {
        let (at, number) = (place(draft), self.next);
        self.next += 1;
        self.remove(&at);
        self.parts += weight(draft);
        self.order.insert(number, at.clone());
        self.drafts.insert(at, Entry { draft: draft.clone(), version, number });
        while self.parts > MOST && self.drafts.len() > 1 {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, at: &(String, String)) {
        if let Some(entry) = self.drafts.remove(at) {
            self.order.remove(&entry.number);
            self.parts = self.parts.saturating_sub(weight(&entry.draft));
        }
    }
}

fn place(draft: &Draft) -> (String, String) {
    (draft.namespace.clone(), draft.name.clone())
}

fn weight(draft: &Draft) -> usize {
    // Each is about as large as a part, labels and annotations included.
    8 + draft.sub_groups.len()
}

#[cfg(test)]
mod tests {
    use muster_podgrouper::draft::SubGroup;

    use super::*;

    fn draft(name: &str, parts: usize) -> Draft {
        let sub_groups = (0..parts).map(|at| SubGroup::leaf(at.to_string(), 1)).collect();
        Draft { name: name.to_owned(), sub_groups, ..Draft::default() }
    }

    #[test]
    fn a_pod_of_another_part_asks_for_the_same_group() {
        let mut known = Known::default();
        known.put(&Draft { member: Some("0".to_owned()), ..draft("g", 2) }, "7".to_owned());
        assert_eq!(
            known.version(&Draft { member: Some("1".to_owned()), ..draft("g", 2) }),
            Some("7")
        );
        assert_eq!(known.version(&draft("g", 3)), None);
        assert_eq!(known.version(&Draft { queue: "q".to_owned(), ..draft("g", 2) }), None);
        assert_eq!(known.version(&draft("h", 2)), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut known = Known::default();
        known.put(&draft("z", MOST / 2), "1".to_owned());
        known.put(&draft("a", MOST / 2 - 8), "2".to_owned());
        assert_eq!(known.drafts.len(), 1);
        assert_eq!(known.version(&draft("a", MOST / 2 - 8)), Some("2"));
        known.put(&draft("a", 1), "3".to_owned());
        known.put(&draft("b", 1), "4".to_owned());
        assert_eq!((known.drafts.len(), known.order.len(), known.parts), (2, 2, 18));
    }
}
