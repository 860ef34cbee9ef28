//! Why a pod has no group: the class, the object, the field and the remedy.

use std::fmt;

use crate::objects::Key;

/// Which kind of trouble. The word is a condition's reason and a metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// An owner is not there.
    OwnerNotFound,
    /// An owner is there, but another one of the same name.
    OwnerUidMismatch,
    /// An owner has several owners.
    MultipleOwners,
    /// The chain of owners does not end.
    OwnerLoop,
    /// Something that is named is not there.
    NotFound,
    /// Something that is named may not be read.
    Forbidden,
    /// Something has to be read first. The edge reads it and asks again.
    Unread,
    /// A field has another type than it must have.
    WrongType,
    /// A number is larger than a PodGroup can say.
    NumberTooLarge,
    /// A group would have no name.
    GroupNameEmpty,
    /// Two parts of a group would have the same name.
    DuplicateSubGroup,
    /// A pod lacks a label that says which part it is.
    PodLabelMissing,
    /// A pod's number is none.
    PodIndexInvalid,
    /// The annotation of the minimum is no number.
    MinMemberAnnotation,
    /// Segments cannot be made as asked.
    SegmentInvalid,
    /// A topology level is given without its topology.
    TopologyMissing,
    /// A job lacks its replica specs.
    MissingReplicaSpecs,
    /// A job lacks one of its replica specs.
    MissingReplicaSpec,
    /// A replica spec has no replicas.
    ZeroReplicas,
    /// A job has no pods.
    NoPods,
    /// A pod of a CronJob has no Job.
    CronJobJobMissing,
    /// An AmlJob has no node count.
    AmlNodeCountMissing,
    /// A group's minimum is above its replicas.
    RayMinExceedsReplicas,
    /// No RayCluster is named yet.
    RayClusterNameMissing,
    /// A LeaderWorkerSet has no size.
    LwsSizeMissing,
    /// Its size is not positive.
    LwsSizeInvalid,
    /// Its startup policy is unknown.
    LwsStartupPolicy,
    /// A JobSet and its pod do not fit.
    JobSetInvalid,
    /// A pod does not name its PodGang.
    PodGangLabelMissing,
    /// The PodGang is not there.
    PodGangNotFound,
    /// The PodGang cannot be used.
    PodGangInvalid,
    /// A Knative pod does not name its revision.
    KnativeRevisionLabel,
    /// The group of a Knative pod is somebody else's.
    KnativePodGroupOwner,
    /// A ModelServing cannot be read, or its pod does not fit.
    ModelServingInvalid,
    /// A pod of a DIJob has no known part.
    DiJobInvalid,
}

/// Why a pod has no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GroupError {
    /// Which kind of trouble.
    pub class: Class,
    /// What it is about: `TFJob team-a/dist`.
    pub object: String,
    /// Where in it: `spec.tfReplicaSpecs`. Empty if it is about the whole.
    pub field: String,
    /// What is wrong.
    pub detail: String,
    /// What the user can do about it.
    pub remedy: &'static str,
    /// What has to be read, of [`Class::Unread`].
    pub key: Option<Box<Key>>,
}

// === impl Class ===

impl Class {
    /// The word for it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::OwnerNotFound => "owner-not-found",
            Self::OwnerUidMismatch => "owner-uid-mismatch",
            Self::MultipleOwners => "multiple-owners",
            Self::OwnerLoop => "owner-loop",
            Self::NotFound => "not-found",
            Self::Forbidden => "forbidden",
            Self::Unread => "unread",
            Self::WrongType => "wrong-type",
            Self::NumberTooLarge => "number-too-large",
            Self::GroupNameEmpty => "group-name-empty",
            Self::DuplicateSubGroup => "duplicate-subgroup",
            Self::PodLabelMissing => "pod-label-missing",
            Self::PodIndexInvalid => "pod-index-invalid",
            Self::MinMemberAnnotation => "min-member-annotation",
            Self::SegmentInvalid => "segment-invalid",
            Self::TopologyMissing => "topology-missing",
            Self::MissingReplicaSpecs => "missing-replica-specs",
            Self::MissingReplicaSpec => "missing-replica-spec",
            Self::ZeroReplicas => "zero-replicas",
            Self::NoPods => "no-pods",
            Self::CronJobJobMissing => "cronjob-job-missing",
            Self::AmlNodeCountMissing => "aml-node-count-missing",
            Self::RayMinExceedsReplicas => "ray-min-exceeds-replicas",
            Self::RayClusterNameMissing => "ray-cluster-name-missing",
            Self::LwsSizeMissing => "lws-size-missing",
            Self::LwsSizeInvalid => "lws-size-invalid",
            Self::LwsStartupPolicy => "lws-startup-policy",
            Self::JobSetInvalid => "jobset-invalid",
            Self::PodGangLabelMissing => "podgang-label-missing",
            Self::PodGangNotFound => "podgang-not-found",
            Self::PodGangInvalid => "podgang-invalid",
            Self::KnativeRevisionLabel => "knative-revision-label",
            Self::KnativePodGroupOwner => "knative-podgroup-owner",
            Self::ModelServingInvalid => "modelserving-invalid",
            Self::DiJobInvalid => "dijob-invalid",
        }
    }
}

// === impl GroupError ===

impl GroupError {
    /// Something is wrong with a field of an object.
    pub fn new(
        class: Class,
        object: impl Into<String>,
        field: impl Into<String>,
        detail: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        let (object, field, detail) = (object.into(), field.into(), detail.into());
        Self { class, object, field, detail, remedy, key: None }
    }

    /// Something has to be read first.
    pub fn unread(key: Key) -> Self {
        let mut error = Self::new(Class::Unread, key.to_string(), "", "it is not read yet", "wait");
        error.key = Some(Box::new(key));
        error
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.detail, self.remedy)
    }
}
