use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

const KUBERNETES: &str = include_str!("../../../../coordinator/objects/src/shape/builtin.txt");

/// The table made anew of all types of the embedded Kubernetes.
fn made() -> String {
    let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in KUBERNETES.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("type") {
            let name = words.next().unwrap();
            types.insert(name, words.filter(|word| *word != "{a}").collect());
        }
    }
    let short = |name: &str| name.rsplit('.').next().unwrap().to_owned();
    let (mut lines, mut open) = (BTreeMap::new(), vec!["batch.v1.JobTemplateSpec"]);
    while let Some(name) = open.pop() {
        if lines.contains_key(&short(name)) {
            continue;
        }
        let mut line = short(name);
        for field in &types[name] {
            let (field, shape) = field.split_once(':').unwrap();
            line += &format!(" {field}");
            let below = shape.split_once('@').map(|(_, rest)| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
                &rest[..end.unwrap_or(rest.len())]
            });
            if let Some(below) = below.filter(|below| types.contains_key(below)) {
                line += &format!(">{}", short(below));
                open.push(below);
            }
        }
        lines.insert(short(name), line);
    }
    let head = "# Fields of a Job's template and of all below it in Kubernetes 1.34: type, fields, \
                and after > the type of what is in one.\n";
    lines.into_values().fold(head.to_owned(), |text, line| text + &line + "\n")
}

#[test]
fn the_table_is_that_of_the_embedded_kubernetes() {
    assert!(table::TEXT == made(), "table.txt should be:\n{}", made());
    assert!(KUBERNETES.starts_with(&format!("# Kubernetes {VERSION}:")));
}

fn serving(pod: Value) -> Value {
    json!({"kind": "ModelServing", "metadata": {"name": "llm", "namespace": "serve"},
        "spec": {"template": {"roles": [{"name": "a", "entryTemplate": pod}]}}})
}

fn said(object: &Value) -> (Vec<String>, Vec<String>) {
    let Verdict { errors, warnings } = judge(object, None);
    let text = |all: Vec<FieldError>| all.iter().map(ToString::to_string).collect();
    (text(errors), text(warnings))
}

#[test]
fn a_typing_error_is_refused_with_its_path_and_the_name_that_was_meant() {
    let container = json!({"name": "a", "imagePullPolcy": "Always", "resource": {"limits": {}},
        "resources": {"nvidia.com/gpu": 8}, "nodeSelector": {}, "env": [{"name": "A", "valeu": "b"}]});
    let object = serving(json!({"metadata": {"lables": {}},
        "spec": {"nodeSelectr": {"a": "b"}, "image": "x", "containers": [container]}}));
    let (errors, warnings) = said(&object);
    let at = "spec.template.roles[0].entryTemplate";
    let first = format!("{at}.spec.containers[0]");
    assert_eq!(
        errors,
        [
            format!("{at}.metadata.lables: Forbidden: unknown field, did you mean labels?"),
            format!("{first}.env[0].valeu: Forbidden: unknown field, did you mean value?"),
            format!(
                "{first}.imagePullPolcy: Forbidden: unknown field, did you mean imagePullPolicy?"
            ),
            format!(
                "{first}.nodeSelector: Forbidden: unknown field, did you mean that of the pod's spec?"
            ),
            format!("{first}.resource: Forbidden: unknown field, did you mean resources?"),
            format!(
                "{first}.resources.nvidia.com/gpu: Forbidden: unknown field, did you mean limits.nvidia.com/gpu?"
            ),
            format!("{at}.spec.image: Forbidden: unknown field, did you mean that of a container?"),
            format!("{at}.spec.nodeSelectr: Forbidden: unknown field, did you mean nodeSelector?"),
        ]
    );
    assert_eq!(warnings, [""; 0]);
    let text = refusal(&object, &judge(&object, None).errors[7..]);
    assert_eq!(
        text,
        format!(
            "ModelServing serve/llm: {at}.spec.nodeSelectr: Forbidden: unknown field, did you mean nodeSelector?; \
             correct the names, or annotate muster.dev/unknown-fields=keep if your Kubernetes knows them"
        )
    );
}

#[test]
fn what_is_like_nothing_known_is_a_warning_and_so_is_all_that_an_annotation_keeps() {
    let mut object = serving(json!({"spec": {"workloadRef": {"a": 1}, "containers": []}}));
    let (errors, warnings) = said(&object);
    assert_eq!(errors, [""; 0]);
    assert!(warnings.len() == 1 && warnings[0].contains(".spec.workloadRef: "), "{warnings:?}");
    object["spec"]["template"]["roles"][0]["entryTemplate"]["spec"]["nodeSelectr"] = json!({});
    assert_eq!(judge(&object, None).errors.len(), 1);
    object["metadata"]["annotations"] = json!({UNKNOWN_FIELDS: KEEP});
    assert_eq!((judge(&object, None).errors.len(), judge(&object, None).warnings.len()), (0, 2));
}

#[test]
fn what_an_object_had_before_stays_allowed_and_what_is_new_is_not() {
    let old = serving(json!({"spec": {"nodeSelectr": {}, "containers": []}}));
    let mut new = old.clone();
    new["spec"]["replicas"] = json!(2);
    assert_eq!(judge(&new, Some(&old)), Verdict::default());
    new["spec"]["template"]["roles"][0]["entryTemplate"]["spec"]["tolerationss"] = json!([]);
    assert_eq!(judge(&new, Some(&old)).errors.len(), 1);
}

#[test]
fn templates_of_all_kinds_are_looked_at() {
    let pod = json!({"spec": {"nodeSelectr": {}}});
    let job = json!({"spec": {"backofLimit": 1, "template": pod}});
    let cases = [
        (
            "TrainJob",
            json!({"runtimePatches": [{"trainingRuntimeSpec": {"template": {"spec":
            {"replicatedJobs": [{"template": job}]}}}}]}),
            2,
        ),
        (
            "TrainingRuntime",
            json!({"template": {"spec": {"replicatedJobs": [{"template": job}]}}}),
            2,
        ),
        (
            "ClusterTrainingRuntime",
            json!({"template": {"spec": {"replicatedJobs": [{"template": job}]}}}),
            2,
        ),
        (
            "ModelServing",
            json!({"template": {"roles": [{"entryTemplate": pod, "workerTemplate": pod}]}}),
            2,
        ),
        ("ModelServing", json!({"roles": [{"template": pod}]}), 1),
        (
            "DIJob",
            json!({"coordinator": {"template": pod}, "collector": {"template": pod},
            "learner": {"template": pod}, "volumes": [{"name": "a", "hostPth": {}}]}),
            4,
        ),
        ("JobSet", json!({"replicatedJobs": [{"template": job}]}), 0),
    ];
    for (kind, spec, count) in cases {
        let found = judge(&json!({"kind": kind, "spec": spec}), None).errors;
        assert_eq!(found.len(), count, "{kind}: {found:?}");
    }
}
