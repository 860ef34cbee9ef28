//! Operator cases: one look at a job, and what is there afterwards.

use muster_dijob::api::{DIJob, KIND};
use muster_dijob::make::Settings;
use muster_dijob::names::label;
use muster_dijob::operator::{self, Event, Pass, Remnants, ServiceSeen, Step};
use muster_dijob::pod::Pod;
use muster_dijob::server::View;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::matching::Matching;

/// Runs a case.
pub fn run(case: &Value) -> Result<(), String> {
    let mut cluster = Cluster::new(&case["given"]["objects"]);
    let text = |key: &str| case["event"][key].as_str().unwrap().to_owned();
    let place = (text("namespace"), text("name"));
    let now = "2026-11-16T12:00:00Z".parse().unwrap();
    let job = cluster.jobs.get(&place).cloned();
    let pass = match (&job, text("type").as_str()) {
        (None, _) => Pass::default(),
        (Some(job), "Added") => operator::first_seen(job, now)
            .unwrap_or_else(|| Pass { status: job.status.clone().unwrap(), ..Pass::default() }),
        (Some(job), _) => {
            let pods = cluster.pods_of(&place.0, &job.label());
            let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
            let services = services(&cluster, job);
            let remnants = &mut Remnants::default();
            operator::reconcile(job, &pods, &services, remnants, &Settings::default(), now)
        }
    };
    let mut events = pass.events.clone();
    let (mut creates, mut deletes) = (Vec::new(), Vec::new());
    for step in &pass.steps {
        events.push(step.done());
        match step {
            Step::CreatePod(pod) => {
                creates.push(pod.to_value());
                let place = (pod.namespace().to_owned(), pod.name().to_owned());
                cluster.pods.insert(place, (**pod).clone().into());
            }
            Step::CreateService(service) => {
                creates.push(service.clone());
                let text = |key: &str| service["metadata"][key].as_str().unwrap().to_owned();
                cluster.services.insert((text("namespace"), text("name")), service.clone());
            }
            Step::DeletePod(named) => {
                deletes
                    .push(json!({"kind": "Pod", "namespace": named.namespace, "name": named.name}));
                cluster.pods.remove(&(named.namespace.clone(), named.name.clone()));
            }
            Step::DeleteService(named) => {
                deletes.push(
                    json!({"kind": "Service", "namespace": named.namespace, "name": named.name}),
                );
                cluster.services.remove(&(named.namespace.clone(), named.name.clone()));
            }
        }
    }
    let expect = &case["expect"];
    let names = |places: Vec<&(String, String)>| -> Vec<Value> {
        places.iter().map(|(space, name)| format!("{space}/{name}").into()).collect()
    };
    same_set(names(cluster.pods.keys().collect()), &expect["remainingPods"], "pods")?;
    same_set(names(cluster.services.keys().collect()), &expect["remainingServices"], "services")?;
    same_set(deletes, &expect["deletes"], "deletes")?;
    same_set(events.iter().map(shown).collect(), &expect["events"], "events")?;
    let mut matching = Matching::default();
    matching.compare(&Value::Array(creates), &expect["creates"], "creates")?;
    if !expect["status"].is_null() {
        matching.compare(
            &serde_json::to_value(&pass.status).unwrap(),
            &expect["status"],
            "status",
        )?;
    }
    Ok(())
}

fn services(cluster: &Cluster, job: &DIJob) -> Vec<ServiceSeen> {
    let ours = cluster.services.iter().filter(|((space, _), service)| {
        space == job.namespace() && service["metadata"]["labels"][label::JOB] == job.label()
    });
    ours.map(|((_, name), service)| {
        let metadata = &service["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.into_iter().find(|owner| owner["kind"] == KIND);
        ServiceSeen {
            name: name.clone(),
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            job: owner.map(|owner| owner["uid"].as_str().unwrap().to_owned()).unwrap_or_default(),
            terminating: metadata["deletionTimestamp"].is_string(),
        }
    })
    .collect()
}

fn shown(event: &Event) -> Value {
    let kind = if event.warning { "Warning" } else { "Normal" };
    json!({"type": kind, "reason": event.reason, "message": event.message})
}

fn same_set(mut found: Vec<Value>, expected: &Value, what: &str) -> Result<(), String> {
    let mut expected = expected.as_array().cloned().unwrap_or_default();
    found.sort_by_key(Value::to_string);
    expected.sort_by_key(Value::to_string);
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what}: {found:?} instead of {expected:?}"))
    }
}
