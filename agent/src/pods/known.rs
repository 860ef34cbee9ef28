//! The pods of this node as the deliverer asks for them: by uid.

use std::sync::Arc;

use tokio::sync::watch;

use super::PodMap;
use crate::deliver::{PodFacts, PodFactsSource};

/// Answers from the latest state of the watch.
#[derive(Clone, Debug)]
pub struct KnownPods(pub watch::Receiver<Arc<PodMap>>);

// === impl KnownPods ===

impl PodFactsSource for KnownPods {
    fn pod(&self, uid: &str) -> Option<PodFacts> {
        let pods = self.0.borrow();
        let pod = pods.values().find(|pod| pod.pod.uid == uid)?;
        let (uid, rank_group) = (pod.pod.uid.clone(), pod.rank_group.clone());
        Some(PodFacts { uid, rank_group, deleting: pod.deleting })
    }
}
