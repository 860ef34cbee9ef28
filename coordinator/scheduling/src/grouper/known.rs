//! What groups were last found to be, so that the next pod of an owner need not compare them field by field. Bounded in
//! parts: a draft is as large as they are many.

use muster_podgrouper::draft::Draft;

use super::bounded::Bounded;

/// Parts of all drafts together, each draft being one as well.
const MAX_PARTS: usize = 200_000;

/// Drafts of groups, by namespace and name, each with the version of the group that says what it does.
#[derive(Debug)]
pub struct Known(Bounded<(String, String), (Draft, String)>);

// === impl Known ===

impl Default for Known {
    fn default() -> Self {
        Self(Bounded::new(usize::MAX, MAX_PARTS))
    }
}

impl Known {
    /// The version of the group that says what the draft does.
    pub fn version(&self, draft: &Draft) -> Option<&str> {
        let (known, version) = self.0.get(&place(draft))?;
        known.is_same_group(draft).then_some(version)
    }

    /// The group of this version says what the draft does. The oldest make room.
    pub fn put(&mut self, draft: &Draft, version: String) {
        self.0.put(place(draft), (draft.clone(), version), weight(draft));
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
        known.put(&draft("z", MAX_PARTS / 2), "1".to_owned());
        known.put(&draft("a", MAX_PARTS / 2 - 8), "2".to_owned());
        assert_eq!(known.0.size().0, 1);
        assert_eq!(known.version(&draft("a", MAX_PARTS / 2 - 8)), Some("2"));
        known.put(&draft("a", 1), "3".to_owned());
        known.put(&draft("b", 1), "4".to_owned());
        assert_eq!(known.0.size(), (2, 18));
    }
}
