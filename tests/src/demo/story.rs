//! What the demo does, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};

use super::narrator::Narrator;
use super::table::{WIDTH, short_ids, table};
use super::{PROFILES, agents, dijob, ranktable, scheduling, serving, training};
use crate::World;
use crate::world::jobset::{phase, selector, summary};
use crate::world::{Ended, HeldDevices, Seen, until_told};

const MANIFEST: &str = include_str!("jobset.yaml");
const JOBSET: &str = "mixed";
/// Pods of the JobSet.
const PODS: usize = 6;
const LIMIT: Duration = Duration::from_secs(60);
const INDENT: usize = 8;

/// Starts the cluster.
pub(super) async fn open(narrator: &mut Narrator, port: u16, nodes: u32) -> anyhow::Result<World> {
    if World::is_real() {
        narrator.plain(
            "Muster demo on a real cluster: its server and controllers do the work, only\n\
             the nodes are simulated. All of it is taken away at the end.\n",
        );
        narrator.step("using the cluster that MUSTER_KUBECONFIG names");
    } else {
        narrator.plain(
            "Muster demo: a whole cluster in this one process.\n\
             It needs no Kubernetes, no containers and no accelerators: the API server is\n\
             real enough for kubectl, the nodes are simulated down to their device files.\n",
        );
        narrator.step("starting an API server in memory and its controllers");
    }
    narrator.step(&format!(
        "starting {nodes} nodes of each of {} kinds, each with its agent, and 2 coordinators",
        PROFILES.len()
    ));
    let plan = PROFILES.iter().fold(World::new(), |plan, p| plan.nodes_of(*p, nodes));
    let world = plan
        .port(port)
        .coordinators(2)
        .processes()
        .agents()
        .start()
        .await
        .context("the cluster does not start")?;
    narrator.step("the cluster is up");
    narrator.more(&format!(
        "URL         {}\nkubeconfig  {}\nnodes' /    {}",
        world.url(),
        world.kubeconfig().display(),
        world.folder().display()
    ));
    Ok(world)
}

/// Shows nodes, a JobSet on its way to completion, which pod had which devices, another JobSet that gets its rank table,
/// TrainJobs that run to their end, ModelServings that get their tables, a DIJob, and queues that compete.
pub(super) async fn run(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    show_nodes(narrator, world).await?;
    agents::show(narrator, world).await?;
    world.create(MANIFEST).await?;
    narrator
        .step(&format!("submitted JobSet {JOBSET}: 4 pods with 8 NPUs each, 2 with 4 GPUs each"));
    narrator.more(
        "the JobSet controller makes Jobs, the Job controller makes pods, the\n\
                   scheduler finds nodes with free devices, the kubelets hand them out",
    );
    let running = wait(narrator, "all pods running", async || {
        let pods = world.pods(&selector(JOBSET)).await?;
        let there = pods.iter().filter(|pod| phase(pod) == "Running").count();
        Ok(match there == PODS && pods.len() == PODS {
            true => Seen::Yes(pods),
            false => Seen::NotYet(summary(&pods)),
        })
    })
    .await?;
    narrator.step(&format!("all {PODS} pods run"));

    let mut held: BTreeMap<String, HeldDevices> = BTreeMap::new();
    for pod in &running {
        held.insert(pod.name_any(), world.devices(pod).await?);
    }
    narrator.step("asked each node's kubelet, on its pod-resources socket, who holds what");
    check(&running, &held)?;
    agents::show_annotations(narrator, world, JOBSET).await?;

    world.gate().open();
    narrator.step("the pods' work is done; they may end");
    let ended =
        wait(narrator, "the end of the JobSet", async || world.look_at_jobset(JOBSET).await);
    if ended.await? == Ended::Failed {
        let set = world.jobset(JOBSET).await?;
        bail!("JobSet {JOBSET} failed: {}", set["status"]);
    }
    let pods = world.pods(&selector(JOBSET)).await?;
    narrator.step(&format!("JobSet {JOBSET} is completed; no device was given twice"));
    narrator.plain("");
    show_pods(narrator, &pods, &held);
    narrator.plain("");
    for pod in &pods {
        ensure!(phase(pod) == "Succeeded", "pod {} is {}", pod.name_any(), phase(pod));
    }
    ranktable::run(narrator, world).await?;
    narrator.plain("");
    training::run(narrator, world).await?;
    narrator.plain("");
    serving::run(narrator, world).await?;
    narrator.plain("");
    dijob::run(narrator, world).await?;
    narrator.plain("");
    scheduling::run(narrator, world).await?;
    narrator.plain("");
    show_commands(narrator, world).await
}

pub(super) async fn wait<T>(
    narrator: &mut Narrator,
    what: &str,
    look: impl AsyncFnMut() -> anyhow::Result<Seen<T>>,
) -> anyhow::Result<T> {
    let tell = |seen: &str| {
        narrator.live(&format!("waiting for {what}; {seen}"));
        Ok(())
    };
    until_told(what, LIMIT, look, tell).await
}

/// Deletes an object and waits until its pods have given their devices back.
pub(super) async fn take_away(
    narrator: &mut Narrator,
    world: &World,
    api: &Api<DynamicObject>,
    name: &str,
    pods: &str,
) -> anyhow::Result<()> {
    api.delete(name, &DeleteParams::background()).await?;
    let what = format!("the end of {name}");
    wait(narrator, &what, async || {
        let left = world.pods(pods).await?.len();
        Ok(if left == 0 { Seen::Yes(()) } else { Seen::NotYet(format!("{left} pods are left")) })
    })
    .await?;
    narrator.step(&format!("{name} is deleted; its devices are free again"));
    Ok(())
}

async fn show_nodes(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(world.client());
    let ours = world.kubelets().context("there are no nodes")?;
    let mut rows = Vec::new();
    for node in nodes.list(&ListParams::default()).await?.items {
        let Some(handle) = ours.node(&node.name_any()) else { continue };
        let status = node.status.as_ref();
        let ready = status.and_then(|status| status.conditions.as_ref()).is_some_and(|all| {
            all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        });
        let resource = handle.spec().profile.resource().unwrap_or("none");
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        let count = allocatable.and_then(|all| all.get(resource)).map_or("0", |n| n.0.as_str());
        let ready = if ready { "Ready" } else { "NotReady" };
        rows.push(vec![node.name_any(), ready.to_owned(), format!("{count} x {resource}")]);
    }
    narrator.step(&format!("{} nodes have registered and report their devices", rows.len()));
    let shown = rows.len().min(12);
    let (some, rest) = rows.split_at(shown);
    narrator.more(&table(&["NODE", "STATUS", "DEVICES"], some, WIDTH - INDENT).join("\n"));
    if !rest.is_empty() {
        narrator.more(&format!("and {} more", rest.len()));
    }
    Ok(())
}

/// Every pod holds as many devices as it asked for, and no device is held twice.
fn check(pods: &[Pod], held: &BTreeMap<String, HeldDevices>) -> anyhow::Result<()> {
    let mut holders: BTreeMap<(String, &str), String> = BTreeMap::new();
    for pod in pods {
        let (name, node) = (pod.name_any(), node_of(pod));
        let devices = held.get(&name).with_context(|| format!("pod {name} was not asked for"))?;
        for (resource, wanted) in wanted(pod) {
            let count = devices.get(&resource).map_or(0, Vec::len);
            ensure!(
                count.to_string() == wanted,
                "pod {name} asked for {wanted} {resource} and holds {count}"
            );
        }
        for id in devices.values().flatten() {
            let other = holders.insert((node.to_owned(), id), name.clone());
            ensure!(other.is_none(), "device {id} of {node} is held by {name} and by {other:?}");
        }
    }
    Ok(())
}

fn wanted(pod: &Pod) -> impl Iterator<Item = (String, String)> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let limits = containers.filter_map(|c| c.resources.as_ref()?.limits.as_ref()).flatten();
    limits
        .map(|(resource, count)| (resource.clone(), count.0.clone()))
        .collect::<Vec<_>>()
        .into_iter()
}

pub(super) fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("-")
}

fn show_pods(narrator: &mut Narrator, pods: &[Pod], held: &BTreeMap<String, HeldDevices>) {
    let nothing = HeldDevices::new();
    let of = |pod: &Pod| held.get(&pod.name_any()).unwrap_or(&nothing);
    let rows: Vec<Vec<String>> = pods
        .iter()
        .map(|pod| {
            let devices = of(pod).iter().map(|(name, ids)| format!("{} x {name}", ids.len()));
            let devices = devices.collect::<Vec<_>>().join(", ");
            vec![pod.name_any(), node_of(pod).to_owned(), phase(pod).to_owned(), devices]
        })
        .collect();
    let lines = table(&["POD", "NODE", "STATUS", "DEVICES"], &rows, WIDTH);
    for (at, line) in lines.iter().enumerate() {
        narrator.plain(line);
        let Some(pod) = at.checked_sub(1).and_then(|at| pods.get(at)) else { continue };
        for id in of(pod).values().flat_map(|ids| short_ids(ids)) {
            narrator.plain(&format!("    {id}"));
        }
    }
}

async fn show_commands(narrator: &mut Narrator, world: &World) -> anyhow::Result<()> {
    let namespace = match world.namespace() {
        "default" => String::new(),
        other => format!(" -n {other}"),
    };
    let kubectl = format!("kubectl{namespace}");
    let tables = serving::commands(world, &kubectl).await?;
    narrator.plain(&format!(
        "Worth trying in another terminal while `cargo demo` is up (without --once):\n\
         \x20 export KUBECONFIG={}\n\
         \x20 kubectl get nodes -L node.kubernetes.io/instance-type\n\
         \x20 {kubectl} get jobsets,jobs,pods -o wide\n\
         \x20 {kubectl} describe jobset {JOBSET}\n\
         \x20 cargo run -p musterctl -- explain podgroup/impossible\n\
         {tables}",
        world.kubeconfig().display(),
    ));
    Ok(())
}
