//! Labels and annotations by which pods form a rank group and ask for its table.

mod names;

use std::collections::BTreeMap;

pub use names::{
    COPIED, ORDER_POD, RANK_GROUP, RANK_GROUP_SIZE, RANKTABLE_CONTAINERS, RANKTABLE_DELIVERY,
    RANKTABLE_ORDER, RANKTABLE_TEMPLATE, RANKTABLE_TIMEOUT,
};

/// What the pods of a rank group carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

// === impl Marks ===

impl Marks {
    /// The marks of a group of so many pods that wants a table of this template.
    pub fn new(group: String, size: impl ToString, template: &str) -> Self {
        let size = (RANK_GROUP_SIZE.to_owned(), size.to_string());
        let template = (RANKTABLE_TEMPLATE[0].to_owned(), template.to_owned());
        let labels = [(RANK_GROUP.to_owned(), group)].into();
        Self { labels, annotations: [size, template].into() }
    }

    /// Repeats what the workload's annotations say of these keys.
    #[must_use]
    pub fn copying(
        mut self,
        annotations: Option<&BTreeMap<String, String>>,
        keys: &[&[&'static str]],
    ) -> Self {
        self.annotations.extend(copied(annotations, keys));
        self
    }

    /// Puts the marks on a pod. Group, size and template are the workload's; in all else the pod's own template wins.
    pub fn put_on(
        &self,
        labels: &mut BTreeMap<String, String>,
        annotations: &mut BTreeMap<String, String>,
    ) {
        labels.extend(self.labels.clone());
        for (key, value) in &self.annotations {
            let ours = key == RANK_GROUP_SIZE || *key == RANKTABLE_TEMPLATE[0];
            if ours || !annotations.contains_key(key) {
                annotations.insert(key.clone(), value.clone());
            }
        }
    }

    /// Lets ranks follow the pods, unless the job or its pods say otherwise: trainers number their processes by pod, and a
    /// table in another order would give them each other's devices. What the table's template says does not count then.
    pub fn follow_pods(annotations: &mut BTreeMap<String, String>) {
        if !RANKTABLE_ORDER.iter().any(|key| annotations.contains_key(*key)) {
            annotations.insert(RANKTABLE_ORDER[0].to_owned(), ORDER_POD.to_owned());
        }
    }
}

/// What the annotations say of these keys.
pub fn copied(
    annotations: Option<&BTreeMap<String, String>>,
    keys: &[&[&'static str]],
) -> BTreeMap<String, String> {
    let found = keys.iter().filter_map(|keys| annotation(annotations, keys));
    found.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The first of these annotations that is not blank, and its value without blanks around it.
pub fn annotation<'a>(
    annotations: Option<&'a BTreeMap<String, String>>,
    keys: &[&'static str],
) -> Option<(&'static str, &'a str)> {
    let annotations = annotations?;
    keys.iter().find_map(|key| {
        let value = annotations.get(*key)?.trim();
        (!value.is_empty()).then_some((*key, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn group_size_and_template_are_the_workloads_and_all_else_is_the_pods() {
        let job = said(&[(RANKTABLE_TIMEOUT[1], " 5m "), (RANKTABLE_ORDER[0], " ")]);
        let marks = Marks::new("train".to_owned(), 2, "ascend").copying(Some(&job), &COPIED);
        let (mut labels, mut annotations) = (
            said(&[(RANK_GROUP, "mine")]),
            said(&[(RANK_GROUP_SIZE, "9"), (RANKTABLE_TIMEOUT[1], "1m")]),
        );
        marks.put_on(&mut labels, &mut annotations);
        assert_eq!(labels, said(&[(RANK_GROUP, "train")]));
        let expected = [
            (RANK_GROUP_SIZE, "2"),
            (RANKTABLE_TEMPLATE[0], "ascend"),
            (RANKTABLE_TIMEOUT[1], "1m"),
        ];
        assert_eq!(annotations, said(&expected));
    }

    #[test]
    fn ranks_follow_the_pods_unless_somebody_says_otherwise() {
        let mut bare = BTreeMap::new();
        Marks::follow_pods(&mut bare);
        assert_eq!(bare, said(&[(RANKTABLE_ORDER[0], "pod")]));
        let mut given = said(&[(RANKTABLE_ORDER[1], "topology")]);
        Marks::follow_pods(&mut given);
        assert_eq!(given, said(&[(RANKTABLE_ORDER[1], "topology")]));
    }
}
