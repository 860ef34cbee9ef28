//! What would be made for a ModelServing in a cluster that has nothing of it yet: plans, followed to their end.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::ModelServing;
use crate::machine::Machine;
use crate::pod::PodMutator;
use crate::seen::{PodGroupApi, Seen};
use crate::shape::Shape;
use crate::step::{Kind, Object, Write};

/// Whoever wants more pods in one ModelServing has mistyped a number.
const MOST_PODS: u64 = 10_000;

/// A plan makes some thousand pods; this many are enough.
const MOST_PLANS: usize = 20;

/// What was made so far.
#[derive(Default)]
struct Made {
    pods: Vec<Pod>,
    services: Vec<Service>,
    revisions: Vec<ControllerRevision>,
    pod_groups: Vec<(ObjectMeta, Value)>,
}

/// The objects, in the order in which they are created; an error says why they cannot all be made.
pub fn objects(
    serving: &ModelServing,
    shape: Shape,
    pod_groups: PodGroupApi,
    mutator: &dyn PodMutator,
    now: Timestamp,
) -> Result<Vec<Object>, String> {
    let wanted = pods(serving);
    if wanted > MOST_PODS {
        return Err(format!(
            "these are {wanted} pods, and {MOST_PODS} are the most that are shown"
        ));
    }
    let (mut made, mut objects) = (Made::default(), Vec::new());
    let mut machine = Machine::new(shape);
    for _ in 0..MOST_PLANS {
        let plan = machine.plan(serving, &made.seen(serving, shape, pod_groups), mutator, now);
        for step in &plan.steps {
            machine.done(step);
            if let Some(Write::Create(object)) = &step.write {
                made.take(object)?;
                objects.push(object.clone());
            }
        }
        match plan.error {
            Some(error) => return Err(error),
            None if !plan.again => return Ok(objects),
            None => {}
        }
    }
    Err(format!("there is no end to it: {} objects so far", objects.len()))
}

/// How many pods all groups have.
fn pods(serving: &ModelServing) -> u64 {
    let count = |number: i32| u64::try_from(number).unwrap_or_default();
    let roles = serving.spec.template.roles.iter();
    let group = roles.map(|role| {
        count(role.replicas.unwrap_or(1)).saturating_mul(count(role.worker_replicas) + 1)
    });
    count(serving.spec.replicas.unwrap_or(1)).saturating_mul(group.fold(0, u64::saturating_add))
}

// === impl Made ===

impl Made {
    fn seen<'a>(
        &'a self,
        serving: &'a ModelServing,
        shape: Shape,
        pod_groups: PodGroupApi,
    ) -> Seen<'a> {
        let mut seen = Seen::new(serving, shape, pod_groups);
        self.pods.iter().for_each(|pod| seen.pod(pod));
        self.services.iter().for_each(|service| seen.service(service));
        self.revisions.iter().for_each(|revision| seen.revision(revision));
        self.pod_groups.iter().for_each(|(metadata, data)| seen.pod_group(metadata, data));
        seen
    }

    fn take(&mut self, object: &Object) -> Result<(), String> {
        match object.kind {
            Kind::Pod => self.pods.push(read(object, &object.body)?),
            Kind::Service => self.services.push(read(object, &object.body)?),
            Kind::ControllerRevision => self.revisions.push(read(object, &object.body)?),
            Kind::PodGroup => {
                let metadata = read(object, &object.body["metadata"])?;
                self.pod_groups.push((metadata, object.body.clone()));
            }
        }
        Ok(())
    }
}

/// What the API server would say of values that are not of their type.
fn read<T: DeserializeOwned>(object: &Object, body: &Value) -> Result<T, String> {
    serde_path_to_error::deserialize(body).map_err(|error| {
        let (kind, name, at) = (object.kind.name(), &object.name, error.path());
        format!("{kind} {name} would be refused: {at}: {}", error.inner())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Plain;
    use serde_json::json;

    fn made(replicas: i32, pod_groups: PodGroupApi) -> Result<Vec<Object>, String> {
        let serving = serde_json::from_value(json!({
            "metadata": {"name": "llm", "namespace": "serve"},
            "spec": {"replicas": replicas, "schedulerName": "volcano", "template": {
                "gangPolicy": {"minRoleReplicas": {"server": 1}},
                "roles": [{"name": "server", "replicas": 1, "workerReplicas": 1,
                    "entryTemplate": {"spec": {"containers": [{"name": "c"}]}},
                    "workerTemplate": {"spec": {"containers": [{"name": "c"}]}}}]}},
        }));
        let now = Timestamp::UNIX_EPOCH;
        objects(&serving.unwrap(), Shape::Kthena, pod_groups, &Plain, now)
    }

    #[test]
    fn all_that_an_empty_cluster_lacks_is_made_once_and_in_order() {
        let made = made(1, PodGroupApi::Plain).unwrap();
        let kinds: Vec<(Kind, &str)> = made.iter().map(|it| (it.kind, it.name.as_str())).collect();
        let revision = made.iter().find(|it| it.kind == Kind::ControllerRevision).unwrap();
        assert_eq!(
            kinds,
            [
                (Kind::ControllerRevision, revision.name.as_str()),
                (Kind::PodGroup, "llm-0"),
                (Kind::Pod, "llm-0-server-0-0"),
                (Kind::Pod, "llm-0-server-0-1"),
                (Kind::Service, "llm-0-server-0-0"),
            ]
        );
    }

    #[test]
    fn more_than_one_plan_makes_is_made_and_a_mistyped_number_is_refused() {
        let many = made(1200, PodGroupApi::Absent).unwrap();
        assert_eq!(many.iter().filter(|object| object.kind == Kind::Pod).count(), 2400);
        let names: std::collections::BTreeSet<(Kind, &str)> =
            many.iter().map(|object| (object.kind, object.name.as_str())).collect();
        assert_eq!(names.len(), many.len(), "nothing is made twice");
        let error = made(1_000_000, PodGroupApi::Absent).unwrap_err();
        assert_eq!(error, "these are 2000000 pods, and 10000 are the most that are shown");
    }
}
