//! `dijobs`: jobs with their phases, how many of their pods run, and where their replicas are.

use std::io::Write;
use std::path::PathBuf;

use muster_dijob::api::{self, Counts, DIJob};
use muster_dijob::pod::Pod;
use muster_dijob::role::Role;
use serde_json::{Value as Json, json};

use crate::args::DijobsArgs;
use crate::live::{Cluster, Kind, ListedFields, Need, for_programs};
use crate::{Failure, input, note};

/// What is asked of a cluster.
static KINDS: [Kind; 2] = [
    Kind {
        list: "dijobs",
        kind: api::KIND,
        at: &[api::API_VERSION],
        plural: "dijobs",
        need: Need::Ours,
        fields: ListedFields::All,
    },
    Kind {
        list: "pods",
        kind: "Pod",
        at: &["v1"],
        plural: "pods",
        need: Need::Must,
        fields: ListedFields::All,
    },
];

const HEADER: [&str; 7] =
    ["NAMESPACE", "NAME", "PHASE", "COORDINATOR", "COLLECTORS", "LEARNERS", "AGGREGATORS"];

/// Where there is nothing to say.
const NONE: &str = "-";

pub(crate) fn list(args: &DijobsArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let (mut jobs, mut pods): (Vec<DIJob>, Vec<Pod>) = (Vec::new(), Vec::new());
    let mut unreadable = false;
    for (shown, objects) in objects(args)? {
        for object in objects {
            match object["kind"].as_str() {
                Some(api::KIND) => match api::read(&object) {
                    Ok(job) => jobs.push(job),
                    Err(why) => {
                        unreadable = true;
                        note(format_args!("{shown}: DIJob {}: {why}", object["metadata"]["name"]));
                    }
                },
                Some("Pod") => pods.extend(api::read(&object).ok()),
                _ => {}
            }
        }
    }
    if jobs.is_empty() && !unreadable {
        if args.files.is_empty() {
            let elsewhere =
                if args.cluster.all_namespaces { "" } else { " here: -A looks in all namespaces" };
            note(format_args!("there are no DIJobs{elsewhere}"));
            return Ok(false);
        }
        let files: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
        return Err(Failure::Usage(format!("{}: there is no DIJob in it", files.join(", "))));
    }
    jobs.sort_by(|one, other| {
        (one.namespace(), one.name()).cmp(&(other.namespace(), other.name()))
    });
    let all: Vec<Json> = jobs.iter().map(|job| shown(job, &pods)).collect();
    if !for_programs(&all, args.output, out)? {
        table(&jobs, out)?;
    }
    Ok(unreadable)
}

/// Objects of each file, or those of the cluster, with what they are called.
fn objects(args: &DijobsArgs) -> Result<Vec<(String, Vec<Json>)>, Failure> {
    if !args.files.is_empty() {
        let read = |file: &PathBuf| Ok((file.display().to_string(), input::objects(file)?));
        return args.files.iter().map(read).collect();
    }
    let cluster = Cluster::new(&args.cluster)?;
    let namespace = args.cluster.namespace.as_deref().unwrap_or(cluster.namespace());
    let namespace = Some(namespace).filter(|_| !args.cluster.all_namespaces);
    let mut objects = Vec::new();
    for kind in &KINDS {
        objects.extend(cluster.objects(kind, namespace)?);
    }
    Ok(vec![("the cluster".to_owned(), objects)])
}

fn counts(job: &DIJob, role: Role) -> Option<Counts> {
    let all = job.status.as_ref()?.replica_status.as_ref()?;
    all.get(role.counted()?).copied()
}

/// How many run, and what has become of the others.
fn cell(job: &DIJob, role: Role) -> String {
    let Some(counts) = counts(job, role) else { return NONE.to_owned() };
    let mut words = Vec::new();
    for (count, word) in
        [(counts.active, "active"), (counts.succeeded, "succeeded"), (counts.failed, "failed")]
    {
        if count > 0 {
            words.push(format!("{count} {word}"));
        }
    }
    if words.is_empty() { NONE.to_owned() } else { words.join(", ") }
}

fn table(jobs: &[DIJob], out: &mut dyn Write) -> Result<(), Failure> {
    let row = |job: &DIJob| {
        let phase = if job.phase().is_empty() { NONE } else { job.phase() };
        [
            job.namespace().to_owned(),
            job.name().to_owned(),
            phase.to_owned(),
            cell(job, Role::Coordinator),
            cell(job, Role::Collector),
            cell(job, Role::Learner),
            cell(job, Role::Aggregator),
        ]
    };
    let rows: Vec<[String; 7]> =
        std::iter::once(HEADER.map(str::to_owned)).chain(jobs.iter().map(row)).collect();
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|c| c.chars().count()).max();
    let widths: [usize; 7] = std::array::from_fn(|at| width(at).unwrap_or_default());
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// A job, with the addresses of its pods if pods were given.
fn shown(job: &DIJob, pods: &[Pod]) -> Json {
    let ours = |pod: &&Pod| {
        pod.namespace() == job.namespace()
            && pod.job().is_some_and(|owner| owner.name == job.name())
            && !pod.is_terminating()
    };
    let of = |role: Role| -> Vec<Json> {
        let pods = pods.iter().filter(ours).filter(|pod| pod.role() == Some(role));
        pods.map(|pod| json!({"name": pod.name(), "url": pod.url(), "phase": pod.phase()}))
            .collect()
    };
    let status = job.status.clone().unwrap_or_default();
    json!({
        "namespace": job.namespace(),
        "name": job.name(),
        "phase": status.phase,
        "replicaStatus": status.replica_status.unwrap_or_default(),
        "coordinator": of(Role::Coordinator),
        "collectors": of(Role::Collector),
        "learners": of(Role::Learner),
        "aggregators": of(Role::Aggregator),
        "ddpLearners": of(Role::DdpLearner),
    })
}
