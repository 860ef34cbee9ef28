//! What the caches hold of a ModelServing's things, as far as it matters here. Borrowed: nothing is copied.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::api::{self, ModelServing, Role};
use crate::naming::{self, Shape};

/// What the cluster knows of PodGroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodGroupApi {
    /// The cluster has no PodGroups.
    #[default]
    Absent,
    /// PodGroups without sub groups.
    Plain,
    /// PodGroups with `subGroupPolicy`.
    SubGroups,
}

/// Everything that carries the ModelServing's name in its labels, in its namespace.
#[derive(Debug, Default)]
pub struct Seen<'a> {
    /// What the cluster knows of PodGroups.
    pub pod_groups_api: PodGroupApi,
    shape: Shape,
    uid: &'a str,
    pods: Vec<PodSeen<'a>>,
    pods_by_name: HashMap<&'a str, usize>,
    /// Those that are ours.
    pods_by_group: HashMap<&'a str, Vec<usize>>,
    /// Those that are not, though they carry our name.
    others: Vec<usize>,
    services: BTreeMap<&'a str, ThingSeen<'a>>,
    /// Those that are ours.
    services_by_group: HashMap<&'a str, Vec<&'a str>>,
    pod_groups: BTreeMap<&'a str, PodGroupSeen<'a>>,
    revisions: BTreeMap<&'a str, &'a ControllerRevision>,
}

/// Whose a thing is, by its labels.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThingSeen<'a> {
    /// Name of the object.
    pub name: &'a str,
    /// The object's `metadata.uid`.
    pub uid: &'a str,
    /// This very ModelServing owns it, not one of the same name that is gone.
    pub ours: bool,
    /// On its way out.
    pub terminating: bool,
    /// Serving group of the object.
    pub group: &'a str,
    /// Role of the object.
    pub role: &'a str,
    /// Instance of the role.
    pub role_id: &'a str,
}

/// A pod, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodSeen<'a> {
    /// Whose it is.
    pub thing: ThingSeen<'a>,
    /// The roles that it was made from.
    pub revision: &'a str,
    /// The role that it was made from.
    pub hash: &'a str,
    /// The first of its instance.
    pub entry: bool,
    /// `Running`, and ready.
    pub ready: bool,
    /// Whether the pod's phase is `Failed`.
    pub failed: bool,
    /// `Running` or `Pending`, and a container of it has been started again.
    pub restarted: bool,
    /// What it costs to remove it.
    pub cost: i64,
}

/// A PodGroup, as far as decisions depend on it.
#[derive(Clone, Copy, Debug)]
pub struct PodGroupSeen<'a> {
    /// Whose it is.
    pub thing: ThingSeen<'a>,
    /// Metadata of the PodGroup.
    pub metadata: &'a ObjectMeta,
    /// The rest of it, with `spec`.
    pub data: &'a Value,
}

// === impl Seen ===

impl<'a> Seen<'a> {
    /// A ModelServing without any objects.
    pub fn new(serving: &'a ModelServing, shape: Shape, pod_groups_api: PodGroupApi) -> Seen<'a> {
        Seen { pod_groups_api, shape, uid: naming::uid(serving), ..Seen::default() }
    }

    /// There is this pod.
    pub fn pod(&mut self, pod: &'a Pod) {
        let pod = self.read_pod(pod);
        let at = self.pods.len();
        self.pods_by_name.insert(pod.thing.name, at);
        if pod.thing.ours {
            self.pods_by_group.entry(pod.thing.group).or_default().push(at);
        } else {
            self.others.push(at);
        }
        self.pods.push(pod);
    }

    /// There is this service.
    pub fn service(&mut self, service: &'a Service) {
        let service = self.read(&service.metadata);
        if service.ours {
            self.services_by_group.entry(service.group).or_default().push(service.name);
        }
        self.services.insert(service.name, service);
    }

    /// There is this PodGroup: `data` is all of it but its metadata, or all of it.
    pub fn pod_group(&mut self, metadata: &'a ObjectMeta, data: &'a Value) {
        let thing = self.read(metadata);
        self.pod_groups.insert(thing.name, PodGroupSeen { thing, metadata, data });
    }

    /// There is this ControllerRevision.
    pub fn revision(&mut self, revision: &'a ControllerRevision) {
        let name = revision.metadata.name.as_deref().unwrap_or_default();
        self.revisions.insert(name, revision);
    }

    /// A pod as it is, or as it was last seen, whether it is among the others or not.
    pub fn read_pod<'p>(&self, pod: &'p Pod) -> PodSeen<'p> {
        PodSeen { thing: self.read(&pod.metadata), ..PodSeen::of(pod) }
    }

    /// A service, a PodGroup: whose it is, whether it is among the others or not.
    pub fn read<'p>(&self, metadata: &'p ObjectMeta) -> ThingSeen<'p> {
        let label = |key: &str| label(metadata, key);
        ThingSeen {
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            ours: self.is_ours(metadata),
            terminating: metadata.deletion_timestamp.is_some(),
            group: label(naming::GROUP),
            role: label(naming::ROLE),
            role_id: label(naming::ROLE_ID),
        }
    }

    /// Whether this very ModelServing owns it.
    fn is_ours(&self, metadata: &ObjectMeta) -> bool {
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| {
            owner.uid == self.uid
                && owner.kind == api::KIND
                && owner.api_version == self.shape.api_version()
        })
    }

    /// All pods, in the order in which they were told.
    pub fn pods(&self) -> &[PodSeen<'a>] {
        &self.pods
    }

    pub(crate) fn pod_named(&self, name: &str) -> Option<&PodSeen<'a>> {
        self.pods_by_name.get(name).and_then(|at| self.pods.get(*at))
    }

    /// Pods of others that carry our name.
    pub(crate) fn others(&self) -> impl Iterator<Item = &PodSeen<'a>> {
        self.others.iter().filter_map(|at| self.pods.get(*at))
    }

    /// Our pods of a group.
    pub(crate) fn pods_of_group(&self, group: &str) -> impl Iterator<Item = &PodSeen<'a>> {
        let at = self.pods_by_group.get(group).map_or(&[][..], Vec::as_slice);
        at.iter().filter_map(|at| self.pods.get(*at))
    }

    /// Our pods of an instance.
    pub(crate) fn pods_of<'s>(
        &'s self,
        group: &str,
        role: &'s str,
        id: &'s str,
    ) -> impl Iterator<Item = &'s PodSeen<'a>> {
        self.pods_of_group(group)
            .filter(move |pod| pod.thing.role == role && pod.thing.role_id == id)
    }

    /// Our services of a group.
    pub(crate) fn services_of_group(&self, group: &str) -> impl Iterator<Item = &ThingSeen<'a>> {
        let names = self.services_by_group.get(group).map_or(&[][..], Vec::as_slice);
        names.iter().filter_map(|name| self.services.get(name))
    }

    /// Our services of an instance.
    pub(crate) fn services_of<'s>(
        &'s self,
        group: &'s str,
        role: &'s str,
        id: &'s str,
    ) -> impl Iterator<Item = &'s ThingSeen<'a>> {
        self.services_of_group(group)
            .filter(move |service| service.role == role && service.role_id == id)
    }

    pub(crate) fn service_named(&self, name: &str) -> Option<&ThingSeen<'a>> {
        self.services.get(name)
    }

    pub(crate) fn pod_groups(&self) -> impl Iterator<Item = &PodGroupSeen<'a>> {
        self.pod_groups.values()
    }

    pub(crate) fn pod_group_named(&self, name: &str) -> Option<&PodGroupSeen<'a>> {
        self.pod_groups.get(name)
    }

    pub(crate) fn revisions(&self) -> impl Iterator<Item = &'a ControllerRevision> {
        let all = self.revisions.values().copied();
        all.filter(|revision| self.is_ours(&revision.metadata))
    }

    /// A revision, whosever it is.
    pub(crate) fn revision_named(&self, name: &str) -> Option<&'a ControllerRevision> {
        self.revisions.get(name).copied()
    }

    /// The roles that a ControllerRevision keeps; none if there is none, or if it cannot be read.
    pub(crate) fn roles_of(&self, serving: &ModelServing, revision: &str) -> Option<Vec<Role>> {
        let name = naming::revision(naming::name(serving), revision);
        let data = &self.revision_named(&name)?.data.as_ref()?.0;
        let roles = data.get("data").unwrap_or(data);
        serde_json::from_value(roles.clone()).ok()
    }

    /// Nothing of ours is left of the group.
    pub(crate) fn group_is_gone(&self, group: &str) -> bool {
        self.pods_of_group(group).next().is_none()
            && self.services_of_group(group).next().is_none()
            && (self.pod_groups_api == PodGroupApi::Absent
                || !self.pod_groups.values().any(|it| it.thing.ours && it.thing.group == group))
    }

    /// Nothing of ours is left of the instance.
    pub(crate) fn instance_is_gone(&self, group: &str, role: &str, id: &str) -> bool {
        self.pods_of(group, role, id).next().is_none()
            && self.services_of(group, role, id).next().is_none()
    }
}

// === impl PodSeen ===

impl<'a> PodSeen<'a> {
    /// What the pod itself says; whose it is has to be asked of [`Seen`].
    fn of(pod: &'a Pod) -> PodSeen<'a> {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        let init = status.and_then(|status| status.init_container_statuses.as_deref());
        let containers = status.and_then(|status| status.container_statuses.as_deref());
        let mut containers = init.unwrap_or_default().iter().chain(containers.unwrap_or_default());
        let annotations = pod.metadata.annotations.as_ref();
        let cost = annotations.and_then(|annotations| annotations.get(naming::DELETION_COST));
        PodSeen {
            thing: ThingSeen::default(),
            revision: label(&pod.metadata, naming::REVISION),
            hash: label(&pod.metadata, naming::ROLE_HASH),
            entry: label(&pod.metadata, naming::ENTRY) == "true",
            ready: phase == "Running" && ready.is_some_and(|ready| ready.status == "True"),
            failed: phase == "Failed",
            restarted: matches!(phase, "Running" | "Pending")
                && containers.any(|container| container.restart_count > 0),
            cost: cost.and_then(|cost| cost.parse().ok()).unwrap_or_default(),
        }
    }
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
}
