//! The program, run on files: what it prints and how it ends.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::program::{ProgramOutput, musterctl_in};

struct Folder(TempDir);

// === impl Folder ===

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let file = Self(TempDir::new().unwrap());
        files.iter().for_each(|(name, text)| fs::write(file.path(name), text).unwrap());
        file
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        musterctl_in(self.0.path(), arguments)
    }
}

fn pod(name: &str, group: &str, server: &str, device: &str) -> Json {
    let held = json!({"pod_name": name, "server_id": server, "devices": [{"device_id": device, "device_ip": format!("10.1.0.{device}")}]});
    json!({"metadata": {"name": name, "namespace": "n", "labels": {muster_kube::rank_group::RANK_GROUP: group},
        "annotations": {"ascend.com/ranktable": held.to_string()}}})
}

const TEMPLATE: &str = "metadata: {name: t}\ndata:\n  filename: a.txt\n  ranktable-template: |\n    {{ .Timestamp }}{{ range .Servers }}{{ range .Devices }} {{ .DeviceId }}={{ .RankId }}{{ end }}{{ end }}\n";

#[test]
fn a_template_is_evaluated_in_every_mode() {
    let file = Folder::new(&[
        ("n", "{{ .n }} {{ .x }}"),
        ("dot", "{{ . }}"),
        ("table", "{{ .Status }}{{ range .Servers }}{{ .ServerId }}{{ end }}"),
        ("broken", "a\n{{ .n"),
        ("wrong", "a\n{{ .n.x.y }}"),
        ("json", r#"{{ fromJson "no" }}"#),
        ("data.json", r#"{"n": 12345678, "Status": "ok", "Servers": [{"ServerId": "s"}]}"#),
        ("text.json", r#""hi""#),
    ]);
    let eval = |template: &str, data: &str, more: &[&str]| {
        file.run(&[&["template", "eval", "--template", template, "--data", data], more].concat())
    };
    assert_eq!(eval("n", "data.json", &[]).1, "1.2345678e+07 <no value>");
    assert_eq!(eval("n", "data.json", &["--mode", "typed"]).1, "12345678 <no value>");
    assert_eq!(eval("dot", "text.json", &["--mode", "string"]).1, "hi");
    assert_eq!(eval("table", "data.json", &["--mode", "table"]).1, "oks");
    assert_eq!(eval("table", "data.json", &["--mode", "seed"]).1, "oks", "as it was called");
    assert_eq!(eval("json", "data.json", &["--lenient"]).0, 0);
    let (code, out, error) = eval("json", "data.json", &[]);
    assert_eq!((code, out.as_str()), (1, ""), "{error}");
    let (code, _, error) = eval("broken", "data.json", &[]);
    assert_eq!(code, 1);
    assert!(error.starts_with("musterctl: template: broken:2:"), "{error}");
    let (code, _, error) = eval("wrong", "data.json", &[]);
    assert_eq!(code, 1);
    assert!(error.starts_with("musterctl: template: wrong:2:5: executing \"wrong\""), "{error}");
    assert_eq!(eval("n", "data.json", &["--missing-key", "error"]).0, 1);
    assert_eq!(eval("n", "absent.json", &[]).0, 2);
    assert_eq!(eval("n", "data.json", &["--mode", "other"]).0, 2);
}

#[test]
fn a_table_is_rendered_for_one_group() {
    let list = json!({"kind": "List", "items": [pod("a", "g", "s", "2"), pod("b", "g", "s", "10"), pod("c", "h", "s", "2")]});
    let one = json!({"items": [pod("a", "g", "s", "2"), pod("b", "g", "s", "10")]});
    let twice = json!({"items": [pod("a", "g", "s", "2"), pod("b", "g", "s", "2")]});
    let file = Folder::new(&[
        ("t.yaml", TEMPLATE),
        ("pods.json", &list.to_string()),
        ("one.json", &one.to_string()),
        ("twice.json", &twice.to_string()),
    ]);
    let render = |pods: &str, more: &[&str]| {
        let fixed = [
            "ranktable",
            "render",
            "--template",
            "t.yaml",
            "--now",
            "2026-01-02T03:04:05Z",
            "--pods",
            pods,
        ];
        file.run(&[&fixed[..], more].concat())
    };
    assert_eq!(
        render("one.json", &[]),
        (0, "2026-01-02T03:04:05Z 10=0 2=1\n".into(), String::new())
    );
    assert_eq!(render("one.json", &["--order", "numeric"]).1, "2026-01-02T03:04:05Z 2=0 10=1\n");
    assert_eq!(render("pods.json", &["--group", "h"]).1, "2026-01-02T03:04:05Z 2=0\n");
    let (code, _, error) = render("pods.json", &[]);
    assert_eq!(code, 2);
    assert!(error.contains("--group: g, h"), "{error}");
    let (code, _, error) = render("twice.json", &[]);
    assert_eq!(code, 1);
    assert!(error.contains("by pod n/a and by pod n/b"), "{error}");
    assert_eq!(render("twice.json", &["--lenient"]).1, "2026-01-02T03:04:05Z 2=0 2=1\n");
    assert_eq!(render("one.json", &["--order", "best"]).0, 2);
}

#[test]
fn a_table_is_checked_and_compared() {
    let table = |rank: &str| {
        json!({"version": "1.0", "status": "completed", "server_count": "1", "server_list": [{"server_id": "s", "device":
            [{"device_id": "0", "device_ip": "10.0.0.1", "rank_id": rank}]}]})
        .to_string()
    };
    let file =
        Folder::new(&[("good.json", &table("0")), ("bad.json", &table("1")), ("empty.json", "")]);
    assert_eq!(file.run(&["ranktable", "check", "good.json"]), (0, String::new(), String::new()));
    let (code, out, _) = file.run(&["ranktable", "check", "bad.json"]);
    assert_eq!(code, 1);
    assert!(
        out.starts_with("error rank_id_not_contiguous at server s, device 0, rank 1: "),
        "{out}"
    );
    let (code, out, _) =
        file.run(&["ranktable", "check", "-o", "json", "--chip", "a3", "good.json"]);
    let findings: Json = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &findings[0]["code"]), (1, &json!("schema_chip_mismatch")));
    assert_eq!(file.run(&["ranktable", "check", "empty.json"]).0, 1);
    assert_eq!(file.run(&["ranktable", "check", "absent.json"]).0, 2);
    assert_eq!(file.run(&["ranktable", "diff", "good.json", "good.json"]).0, 0);
    let (code, _, error) = file.run(&["ranktable", "diff", "good.json", "empty.json"]);
    assert!(code == 2 && error.contains("empty.json: the second table is no"), "{code} {error}");
    let (code, out, _) = file.run(&["ranktable", "diff", "good.json", "bad.json"]);
    assert_eq!((code, out.as_str()), (1, "~ server s device 0: rank 0 -> 1\n"));
}

#[test]
fn annotations_and_tables_of_others_are_taken_over() {
    let theirs = r#"{"pod_name":"w","server_id":"uid","host_ip":"192.168.0.1","devices":[{"device_id":"0","device_ip":"10.0.0.1"}]}"#;
    let pods = json!({"items": [{"metadata": {"name": "w", "namespace": "n",
        "annotations": {"ascend.kubectl.kubernetes.io/ascend-910-configuration": theirs}}}, {"metadata": {"name": "other"}}]});
    let table = r#"{"status":"completed","group_list":[{"instance_list":[{"pod_name":"w","server_id":"192.168.0.1","devices":[{"device_id":"0","device_ip":"10.0.0.1"}]}]}]}"#;
    let config_map = json!({"metadata": {"name": "rings-config-j"}, "data": {"hccl.json": table}});
    let file = Folder::new(&[
        ("pods.json", &pods.to_string()),
        ("hccl.json", table),
        ("cm.json", &config_map.to_string()),
    ]);
    let (code, out, error) = file.run(&["migrate", "--pods", "pods.json"]);
    assert_eq!(code, 0, "{error}");
    let list: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        list["items"][0]["metadata"]["annotations"]["ascend.com/ranktable"],
        r#"{"pod_name":"w","server_id":"192.168.0.1","devices":[{"device_id":"0","device_ip":"10.0.0.1"}]}"#
    );
    let (_, from_file, _) = file.run(&["migrate", "--table", "hccl.json"]);
    let migrated: Json = serde_json::from_str(&from_file).unwrap();
    assert_eq!(migrated["server_list"][0]["device"][0]["rank_id"], "0");
    assert_eq!(file.run(&["migrate", "--table", "cm.json"]).1, from_file);
    assert!(
        file.run(&["migrate", "--table", "hccl.json", "--annotations"])
            .1
            .contains("\"name\": \"w\"")
    );
    assert_eq!(file.run(&["migrate"]).0, 2);
}

/// A pod of group g, and the template that it names.
fn injected_desk() -> Folder {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: w-0\n  labels: {muster.dev/rank-group: g}\n  annotations: {muster.dev/ranktable-template: t}\nspec:\n  containers:\n  - {name: main, image: m}\n";
    let plain = "kind: Pod\nmetadata: {name: p, labels: {muster.dev/rank-group: g}}\nspec: {containers: [{name: a}]}\n";
    let taken = pod.to_owned() + "  volumes:\n  - {name: ranktable, hostPath: {path: /x}}\n";
    let read = |text: &str| serde_saphyr::from_str::<Json>(text).unwrap();
    let list = json!({"kind": "List", "apiVersion": "v1", "items": [read(pod), read(plain)]});
    let refused = json!({"kind": "PodList", "items": [read(&taken), read(pod), read(&taken)]});
    Folder::new(&[
        ("t.yaml", TEMPLATE),
        ("other.yaml", &TEMPLATE.replace("name: t", "name: u")),
        ("pod.yaml", pod),
        ("plain.yaml", plain),
        ("taken.yaml", &taken),
        ("list.json", &list.to_string()),
        ("refused.json", &refused.to_string()),
        ("job.yaml", "kind: Job\nmetadata: {name: j}\n"),
        ("text.yaml", "just text\n"),
    ])
}

#[test]
fn a_pod_is_printed_as_it_would_be_created() {
    let file = injected_desk();
    let inject = |template: &str, pod: &str, more: &[&str]| {
        let fixed = ["ranktable", "inject", "--template", template, "--pod", pod];
        file.run(&[&fixed[..], more].concat())
    };
    let (code, yaml, error) = inject("t.yaml", "pod.yaml", &["--agent-image", "muster/agent:1"]);
    assert_eq!((code, error.as_str()), (0, ""), "{yaml}");
    let (code, text, _) =
        inject("t.yaml", "pod.yaml", &["--agent-image", "muster/agent:1", "-o", "json"]);
    assert_eq!(code, 0);
    let pod: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_saphyr::from_str::<Json>(&yaml).unwrap(), pod);
    assert_eq!(pod["spec"]["volumes"], json!([{"name": "ranktable", "emptyDir": {}}]));
    let waiter = &pod["spec"]["initContainers"][0];
    assert_eq!(waiter["image"], "muster/agent:1");
    assert_eq!(
        waiter["command"],
        json!(["muster-agent", "wait", "--file", "/etc/ascend/ranktable/a.txt"])
    );
    assert_eq!(pod["metadata"]["annotations"]["muster.dev/ranktable-file"], "a.txt");

    let (_, yaml, _) = inject("t.yaml", "pod.yaml", &["--delivery", "configmap"]);
    assert!(yaml.contains("RANKTABLE_FILE=\"/etc/ascend/ranktable/a.txt\"\n"), "{yaml}");
    let pod: Json = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(pod["spec"]["volumes"][0]["configMap"]["name"], "g-ranktable");
    // What is printed can be given again, and stays.
    fs::write(file.path("again.yaml"), &yaml).unwrap();
    let again = inject("t.yaml", "again.yaml", &["--delivery", "configmap", "-o", "patch"]);
    assert_eq!(again, (0, "[]\n".into(), String::new()));
    let (_, _, error) = inject("other.yaml", "pod.yaml", &[]);
    assert_eq!(error, "musterctl: the pod names template t; u is tried\n");
}

#[test]
fn a_list_of_pods_stays_one_and_each_refusal_is_told() {
    let file = injected_desk();
    let inject = |pod: &str, more: &[&str]| {
        let fixed = ["ranktable", "inject", "--template", "t.yaml", "--pod", pod];
        file.run(&[&fixed[..], more].concat())
    };
    let (code, text, warnings) = inject("list.json", &["-o", "json"]);
    let list: Json = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &list["kind"]), (0, &json!("List")));
    assert_eq!(list["items"][0]["spec"]["initContainers"][0]["name"], "wait-ranktable");
    assert_eq!(list["items"][1]["spec"], json!({"containers": [{"name": "a"}]}));
    assert!(warnings.contains("add the annotation muster.dev/ranktable-template"), "{warnings}");
    let (_, text, _) = inject("list.json", &["-o", "patch"]);
    let patches: Json = serde_json::from_str(&text).unwrap();
    assert_eq!((patches[0][0]["op"].clone(), patches[1].clone()), (json!("add"), json!([])));

    let (code, out, error) = inject("refused.json", &[]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(
        error.matches("pod default/w-0: volume ranktable is hostPath").count(),
        2,
        "{error}"
    );
    let (code, _, error) = inject("job.yaml", &[]);
    assert_eq!(
        (code, error.as_str()),
        (1, "musterctl: job.yaml: this is a Job; give a Pod or a List of Pods\n")
    );
    assert_eq!(inject("text.yaml", &[]).0, 1);
    assert_eq!(inject("absent.yaml", &[]).0, 2);
    assert_eq!(inject("pod.yaml", &["--delivery", "pigeon"]).0, 2);
    let (code, help, _) = file.run(&["ranktable", "inject", "--help"]);
    assert_eq!(code, 0);
    assert!(help.contains("Example:\n  musterctl ranktable inject --template"), "{help}");
}

#[test]
fn a_model_serving_is_checked_in_both_shapes() {
    let good = "apiVersion: workload.serving.volcano.sh/v1alpha1\nkind: ModelServing\nmetadata: {name: llm, namespace: serve}\nspec:\n  template:\n    roles:\n    - name: server\n      workerReplicas: 0\n      entryTemplate: {spec: {containers: [{name: c, image: i}]}}\n";
    let short = "apiVersion: workload.kthena.io/v1alpha1\nkind: ModelServing\nmetadata: {name: qwen}\nspec:\n  roles:\n  - {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}\n";
    let bad = good.replace("workerReplicas: 0", "workerReplicas: 1\n      replica: 2");
    let both = format!("{good}---\n{}---\n", short.replace("replicas: 2", "replicas: -2"));
    let list = json!({"kind": "List", "items": [serde_saphyr::from_str::<Json>(short).unwrap(),
        {"kind": "ConfigMap", "metadata": {"name": "t"}}]});
    let file = Folder::new(&[
        ("good.yaml", good),
        ("short.yaml", short),
        ("bad.yaml", &bad),
        ("both.yaml", &both),
        ("list.json", &list.to_string()),
        ("typed.yaml", &good.replace("workerReplicas: 0", "workerReplicas: many")),
        ("text.yaml", "just text\n"),
        ("pod.yaml", "kind: Pod\nmetadata: {name: p}\n"),
        ("broken.yaml", "a: [\n"),
        ("broken.json", "{\"a\": \n"),
    ]);
    let check = |files: &[&str]| file.run(&[&["modelserving", "check"], files].concat());
    assert_eq!(check(&["good.yaml", "short.yaml"]), (0, String::new(), String::new()));
    assert_eq!(check(&["-o", "json", "good.yaml"]), (0, "[]\n".into(), String::new()));
    let (code, out, _) = check(&["bad.yaml", "both.yaml"]);
    assert_eq!(code, 1);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines,
        [
            "bad.yaml: ModelServing serve/llm: spec.template.roles[0].replica: Invalid value: 2: unknown field: the API server drops it; correct its name or its place",
            "bad.yaml: ModelServing serve/llm: spec.template.roles[0].workerTemplate: Required value: workerTemplate is required when workerReplicas is greater than 0; write the template of the workers, or set workerReplicas to 0",
            "both.yaml: ModelServing qwen: spec.roles[0].replicas: Invalid value: -2: role replicas must be a non-negative integer; set it to 0 or more; without the field it is 1",
        ]
    );
    let (code, out, _) = check(&["-o", "json", "both.yaml"]);
    let findings: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1);
    assert_eq!(
        findings,
        json!([{"file": "both.yaml", "object": "ModelServing qwen", "field": "spec.roles[0].replicas",
            "type": "FieldValueInvalid", "badValue": -2, "detail": "role replicas must be a non-negative integer",
            "remedy": "set it to 0 or more; without the field it is 1"}])
    );
    let (code, _, error) = check(&["list.json"]);
    assert_eq!((code, error.as_str()), (0, "musterctl: list.json: ConfigMap t is passed over\n"));
    let (code, out, _) = check(&["typed.yaml"]);
    assert_eq!(code, 1);
    assert!(out.contains("roles[0].workerReplicas: Invalid value: \"many\""), "{out}");
    assert_eq!(check(&["text.yaml"]).0, 1);
    for wrong in ["pod.yaml", "broken.yaml", "broken.json", "absent.yaml"] {
        let (code, out, error) = check(&[wrong]);
        assert_eq!((code, out.as_str()), (2, ""), "{wrong}: {error}");
        assert!(error.contains(wrong), "{error}");
    }
    assert_eq!(check(&[]).0, 2);
}

#[test]
fn the_model_servings_in_the_docs_pass_the_check() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    let mut files: Vec<String> = std::fs::read_dir(examples)
        .unwrap()
        .map(|file| file.unwrap().path().to_str().unwrap().to_owned())
        .filter(|file| file.contains("modelserving"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    let mut words = vec!["modelserving", "check"];
    words.extend(files.iter().map(String::as_str));
    assert_eq!(Folder::new(&[]).run(&words), (0, String::new(), String::new()));
}

#[test]
fn dijobs_are_listed_with_their_phases_and_replicas() {
    let job = |name: &str, status: Json| {
        json!({"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "DIJob",
            "metadata": {"name": name, "namespace": "rl"}, "status": status,
            "spec": {"coordinator": {"template": {"spec": {"containers": [{"name": "di-container"}]}}}}})
    };
    let pod = json!({"kind": "Pod", "metadata": {"name": "cartpole-collector-bcdfg", "namespace": "rl",
        "labels": {"replica-type": "collector", "dijob-name": "cartpole"}, "ownerReferences": [
            {"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "DIJob", "name": "cartpole", "uid": "u"}]},
        "status": {"phase": "Running"}});
    let running = json!({"phase": "Running", "replicaStatus": {"Coordinator": {"active": 1},
        "Collector": {"active": 2, "failed": 1}, "Learner": {}, "Aggregator": {}}});
    let list = json!({"kind": "List", "items": [job("cartpole", running), pod, job("atari", json!(null))]});
    let file = Folder::new(&[("all.json", &list.to_string()), ("none.json", r#"{"kind": "Pod"}"#)]);
    let (code, out, _) = file.run(&["dijobs", "all.json"]);
    let lines: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(code, 0);
    assert_eq!(lines[1], ["rl", "atari", "-", "-", "-", "-", "-"]);
    assert_eq!(lines[2], ["rl", "cartpole", "Running", "1 active", "2 active, 1 failed", "-", "-"]);
    let (code, out, _) = file.run(&["dijobs", "-o", "json", "all.json"]);
    let all: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!((&all[1]["name"], &all[1]["phase"]), (&json!("cartpole"), &json!("Running")));
    assert_eq!(
        all[1]["collectors"],
        json!([{"name": "cartpole-collector-bcdfg", "url": "cartpole-collector-bcdfg.rl:22270", "phase": "Running"}])
    );
    assert_eq!(file.run(&["dijobs", "none.json"]).0, 2);
}
