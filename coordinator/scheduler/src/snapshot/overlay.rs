//! What a scheduler has ordered and no object shows yet.
//!
//! A snapshot is made of objects, and the overlay is laid over its pods. The objects stay as they are, and the overlay costs its
//! own size: a snapshot that is kept from cycle to cycle needs only another overlay.

use std::collections::{BTreeMap, BTreeSet};

use crate::input::Pod;

/// Namespace and name of a pod.
pub type PodName<'a> = (&'a str, &'a str);

/// What a scheduler has ordered and no object shows yet.
#[derive(Debug, Default)]
pub struct Overlay<'a> {
    /// Devices that are held for the pods that share them.
    pub reserved: Reserved<'a>,
    /// Pods whose eviction is ordered. Their queue has what they hold until they have left.
    pub leaving: BTreeSet<PodName<'a>>,
    /// Pods that are not decided on in this cycle.
    pub held_out: BTreeSet<PodName<'a>>,
    /// Pods that are not even read in this cycle: what they say makes a decision fail.
    pub unread: BTreeSet<PodName<'a>>,
    /// Pods that have been given a place.
    pub in_flight: BTreeMap<PodName<'a>, InFlight<'a>>,
}

/// Devices that are held for the pods that share them.
#[derive(Debug, Default)]
pub struct Reserved<'a> {
    /// Reservation pods whose device nobody shares: they leave.
    pub unused: BTreeSet<PodName<'a>>,
    /// Reservation pods that may still come into being: their device is taken.
    pub coming: Vec<Pod>,
    /// Shared devices of which nobody else gets a part: node and group.
    pub closed: Vec<(&'a str, &'a str)>,
}

/// A place that a pod has been given.
#[derive(Clone, Copy, Debug)]
pub struct InFlight<'a> {
    /// The node.
    pub node: &'a str,
    /// Shared devices that the pod gets a part of.
    pub gpu_groups: &'a [String],
    /// Annotations that the pod gets with it: they say its NUMA zones.
    pub annotations: &'a BTreeMap<String, String>,
    /// How sure the place is.
    pub kind: InFlightKind,
}

/// How sure a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlightKind {
    /// The binding is under way. It may be done even if the node has vanished.
    Binding,
    /// The pod gets the place as soon as others have left it.
    Nominated,
}
