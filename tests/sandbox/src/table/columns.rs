//! The columns of each kind, and how their cells are made.

use jiff::Timestamp;
use muster_objects::meta;
use serde_json::{Value, json};

use super::{age, path};
use crate::kinds::{Column, Kind};

/// A built-in kind's extra columns: heading, type, priority.
type Heading = (&'static str, &'static str, i64);

const POD: &[Heading] = &[
    ("Ready", "string", 0),
    ("Status", "string", 0),
    ("Restarts", "string", 0),
    ("Age", "string", 0),
    ("IP", "string", 1),
    ("Node", "string", 1),
    ("Nominated Node", "string", 1),
    ("Readiness Gates", "string", 1),
];
const NODE: &[Heading] = &[
    ("Status", "string", 0),
    ("Roles", "string", 0),
    ("Age", "string", 0),
    ("Version", "string", 0),
    ("Internal-IP", "string", 1),
    ("External-IP", "string", 1),
    ("OS-Image", "string", 1),
    ("Kernel-Version", "string", 1),
    ("Container-Runtime", "string", 1),
];
const JOB: &[Heading] = &[
    ("Status", "string", 0),
    ("Completions", "string", 0),
    ("Duration", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
const SERVICE: &[Heading] = &[
    ("Type", "string", 0),
    ("Cluster-IP", "string", 0),
    ("External-IP", "string", 0),
    ("Port(s)", "string", 0),
    ("Age", "string", 0),
    ("Selector", "string", 1),
];
const NAMESPACE: &[Heading] = &[("Status", "string", 0), ("Age", "string", 0)];
const CONFIG_MAP: &[Heading] = &[("Data", "string", 0), ("Age", "string", 0)];
const SECRET: &[Heading] = &[("Type", "string", 0), ("Data", "string", 0), ("Age", "string", 0)];
const LEASE: &[Heading] = &[("Holder", "string", 0), ("Age", "string", 0)];
const EVENT: &[Heading] = &[
    ("Last Seen", "string", 0),
    ("Type", "string", 0),
    ("Reason", "string", 0),
    ("Object", "string", 0),
    ("Message", "string", 0),
];
const DEPLOYMENT: &[Heading] = &[
    ("Ready", "string", 0),
    ("Up-to-date", "string", 0),
    ("Available", "string", 0),
    ("Age", "string", 0),
];
const CRD: &[Heading] = &[("Created At", "date", 0)];
const AGE_ONLY: &[Heading] = &[("Age", "string", 0)];

fn headings(kind: &Kind) -> &'static [Heading] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => POD,
        ("", "Node") => NODE,
        ("batch", "Job") => JOB,
        ("", "Service") => SERVICE,
        ("", "Namespace") => NAMESPACE,
        ("", "ConfigMap") => CONFIG_MAP,
        ("", "Secret") => SECRET,
        ("coordination.k8s.io", "Lease") => LEASE,
        ("" | "events.k8s.io", "Event") => EVENT,
        ("apps", "Deployment") => DEPLOYMENT,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => CRD,
        _ => AGE_ONLY,
    }
}

const NAME_TEXT: &str = "The name of the object, unique in its namespace.";
const AGE_TEXT: &str = "How long ago the object was created.";

/// All columns, the name first.
pub fn of(kind: &Kind) -> Vec<Column> {
    let column = |name: &str, type_: &str, priority| Column {
        name: name.to_owned(),
        type_: type_.to_owned(),
        format: String::new(),
        description: String::new(),
        priority,
        json_path: String::new(),
    };
    let mut name = column("Name", "string", 0);
    name.format = "name".to_owned();
    NAME_TEXT.clone_into(&mut name.description);
    let mut out = vec![name];
    match &kind.custom {
        Some(custom) if custom.columns.is_empty() => {
            let mut age = column("Age", "date", 0);
            AGE_TEXT.clone_into(&mut age.description);
            age.json_path = ".metadata.creationTimestamp".to_owned();
            out.push(age);
        }
        Some(custom) => out.extend(custom.columns.iter().cloned().map(|mut column| {
            if column.description.is_empty() {
                column.description = described(&column);
            }
            column
        })),
        None => out.extend(
            headings(kind).iter().map(|(name, type_, priority)| column(name, type_, *priority)),
        ),
    }
    out
}

fn described(column: &Column) -> String {
    let path = column.json_path.trim_start_matches('.');
    format!("Custom resource definition column (in JSONPath format): .{path}")
}

/// The cells of an object's row.
pub fn cells(kind: &Kind, columns: &[Column], object: &Value) -> Vec<Value> {
    let mut row = vec![json!(meta::name(object))];
    match &kind.custom {
        Some(_) => row.extend(columns.iter().skip(1).map(|column| custom_cell(column, object))),
        None => row.extend(builtin_cells(kind, object)),
    }
    row
}

fn custom_cell(column: &Column, object: &Value) -> Value {
    let found = path::find(object, &column.json_path);
    let Some(first) = found.first() else { return Value::Null };
    match column.type_.as_str() {
        "integer" => first.as_i64().map_or(Value::Null, Value::from),
        "number" => first.as_f64().map_or(Value::Null, Value::from),
        "boolean" => first.as_bool().map_or(Value::Null, Value::from),
        "date" => first.as_str().map_or(Value::Null, |text| json!(age(text, Timestamp::now()))),
        _ if found.len() > 1 => json!(found.iter().map(|v| shown(v)).collect::<Vec<_>>().join(",")),
        _ => json!(shown(first)),
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn builtin_cells(kind: &Kind, object: &Value) -> Vec<Value> {
    let born = age(meta::text(object, "creationTimestamp"), Timestamp::now());
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("");
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let size = |path: &str| object.pointer(path).and_then(Value::as_object).map_or(0, |m| m.len());
    let or_none = |text: &str| if text.is_empty() { json!("<none>") } else { json!(text) };
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod(object, &born),
        ("", "Node") => node(object, &born),
        ("batch", "Job") => job(object, &born),
        ("", "Service") => vec![
            json!(text("/spec/type")),
            or_none(text("/spec/clusterIP")),
            json!("<none>"),
            json!(ports(object)),
            json!(born),
            json!(labels(&object["spec"]["selector"])),
        ],
        ("", "Namespace") => vec![json!(text("/status/phase")), json!(born)],
        ("", "ConfigMap") => vec![json!(size("/data") + size("/binaryData")), json!(born)],
        ("", "Secret") => vec![json!(text("/type")), json!(size("/data")), json!(born)],
        ("coordination.k8s.io", "Lease") => vec![json!(text("/spec/holderIdentity")), json!(born)],
        ("" | "events.k8s.io", "Event") => event(object, &born),
        ("apps", "Deployment") => vec![
            json!(format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas"))),
            json!(number("/status/updatedReplicas").to_string()),
            json!(number("/status/availableReplicas").to_string()),
            json!(born),
        ],
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            vec![json!(meta::text(object, "creationTimestamp"))]
        }
        _ => vec![json!(born)],
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn pod(object: &Value, born: &str) -> Vec<Value> {
    let status = &object["status"];
    let containers = list(&object["spec"]["containers"]).len();
    let statuses = list(&status["containerStatuses"]);
    let ready = statuses.iter().filter(|c| c["ready"] == json!(true)).count();
    let restarts: i64 = statuses.iter().filter_map(|c| c["restartCount"].as_i64()).sum();
    let or_none =
        |value: &Value| value.as_str().filter(|t| !t.is_empty()).unwrap_or("<none>").to_owned();
    vec![
        json!(format!("{ready}/{containers}")),
        json!(pod_status(object)),
        json!(restarts.to_string()),
        json!(born),
        json!(or_none(&status["podIP"])),
        json!(or_none(&object["spec"]["nodeName"])),
        json!(or_none(&status["nominatedNodeName"])),
        json!("<none>"),
    ]
}

/// The one word that tells most: the reason of the first container in trouble, or the phase.
fn pod_status(object: &Value) -> String {
    let status = &object["status"];
    let phase = status["phase"].as_str().unwrap_or("");
    let mut word = status["reason"].as_str().unwrap_or(phase).to_owned();
    let inits = list(&status["initContainerStatuses"]);
    let done = |c: &&Value| c["state"]["terminated"]["exitCode"] == json!(0);
    if let Some((at, current)) = inits.iter().enumerate().find(|(_, c)| !done(c))
        && current["started"] != json!(true)
    {
        let reason =
            current["state"]["waiting"]["reason"].as_str().filter(|r| *r != "PodInitializing");
        let failed = current["state"]["terminated"]["reason"].as_str();
        let total = list(&object["spec"]["initContainers"]).len();
        word = match reason.or(failed) {
            Some(reason) => format!("Init:{reason}"),
            None => format!("Init:{at}/{total}"),
        };
    } else {
        for container in list(&status["containerStatuses"]).iter().rev() {
            let state = &container["state"];
            let reason =
                state["waiting"]["reason"].as_str().or(state["terminated"]["reason"].as_str());
            if let Some(reason) = reason {
                reason.clone_into(&mut word);
            }
        }
    }
    if meta::is_terminating(object) { "Terminating".to_owned() } else { word }
}

fn node(object: &Value, born: &str) -> Vec<Value> {
    let ready = list(&object["status"]["conditions"]).iter().find(|c| c["type"] == json!("Ready"));
    let mut status = match ready.and_then(|c| c["status"].as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object["spec"]["unschedulable"] == json!(true) {
        status.push_str(",SchedulingDisabled");
    }
    let roles: Vec<&str> = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    let roles = if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") };
    let address = |type_: &str| {
        let all = list(&object["status"]["addresses"]);
        let found = all.iter().find(|a| a["type"] == json!(type_));
        found.and_then(|a| a["address"].as_str()).unwrap_or("<none>").to_owned()
    };
    let info = |field: &str| {
        object["status"]["nodeInfo"][field].as_str().unwrap_or("<unknown>").to_owned()
    };
    vec![
        json!(status),
        json!(roles),
        json!(born),
        json!(info("kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("osImage")),
        json!(info("kernelVersion")),
        json!(info("containerRuntimeVersion")),
    ]
}

fn job(object: &Value, born: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let is = |type_: &str| {
        list(&status["conditions"])
            .iter()
            .any(|c| c["type"] == json!(type_) && c["status"] == json!("True"))
    };
    let word = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if meta::is_terminating(object) {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else {
        "Running"
    };
    let succeeded = status["succeeded"].as_i64().unwrap_or(0);
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(width)) if width > 1 => format!("{succeeded}/1 of {width}"),
        _ => format!("{succeeded}/1"),
    };
    let duration = match (status["startTime"].as_str(), status["completionTime"].as_str()) {
        (None, _) => String::new(),
        (Some(start), None) => age(start, Timestamp::now()),
        (Some(start), Some(end)) => end.parse().map(|end| age(start, end)).unwrap_or_default(),
    };
    let containers = list(&spec["template"]["spec"]["containers"]);
    let join = |field: &str| {
        containers.iter().filter_map(|c| c[field].as_str()).collect::<Vec<_>>().join(",")
    };
    vec![
        json!(word),
        json!(completions),
        json!(duration),
        json!(born),
        json!(join("name")),
        json!(join("image")),
        json!(labels(&spec["selector"]["matchLabels"])),
    ]
}

fn event(object: &Value, born: &str) -> Vec<Value> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("").to_owned();
    let seen = [text("/series/lastObservedTime"), text("/lastTimestamp"), text("/eventTime")];
    let seen = seen.iter().find(|t| !t.is_empty());
    let kind = text("/involvedObject/kind").to_lowercase();
    vec![
        json!(seen.map_or_else(|| born.to_owned(), |t| age(t, Timestamp::now()))),
        json!(text("/type")),
        json!(text("/reason")),
        json!(format!("{kind}/{}", text("/involvedObject/name"))),
        json!(text("/message")),
    ]
}

fn ports(service: &Value) -> String {
    let all = list(&service["spec"]["ports"]);
    let shown: Vec<String> = all
        .iter()
        .map(|p| format!("{}/{}", p["port"], p["protocol"].as_str().unwrap_or("TCP")))
        .collect();
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") }
}

fn labels(value: &Value) -> String {
    let pairs: Vec<String> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}
