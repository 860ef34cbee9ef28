//! Changed objects: what may change, and how a refusal shows it.

use super::*;

#[test]
fn what_may_not_change_is_refused_and_what_may_counts_as_a_generation() {
    let stored = |group: &str, kind: &str, object: Value| {
        let mut stored = create(group, kind, object).unwrap();
        stored["metadata"]["resourceVersion"] = json!("1");
        stored
    };
    let secret = stored("", "Secret", json!({"immutable": true, "data": {"a": "Yg=="}}));
    let deployment = stored(
        "apps",
        "Deployment",
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template("Always")}}),
    );
    let job = stored("batch", "Job", json!({"spec": {"template": template("Never")}}));
    let service = stored("", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
    let pod = stored("", "Pod", pod(json!({})));
    let cases = [
        ("", "Secret", &secret, "/data/a", json!("Yw=="), Err("data")),
        ("apps", "Deployment", &deployment, "/spec/replicas", json!(3), Ok(Some(2))),
        (
            "apps",
            "Deployment",
            &deployment,
            "/spec/selector/matchLabels/a",
            json!("c"),
            Err("spec.template.metadata.labels"),
        ),
        ("batch", "Job", &job, "/spec/completions", json!(4), Err("spec.completions")),
        ("batch", "Job", &job, "/spec/parallelism", json!(4), Ok(Some(2))),
        (
            "batch",
            "Job",
            &job,
            "/spec/template/spec/dnsPolicy",
            json!("Default"),
            Err("spec.template"),
        ),
        (
            "",
            "Service",
            &service,
            "/spec/clusterIP",
            json!("10.96.0.99"),
            Err("spec.clusterIPs[0]"),
        ),
        ("", "Service", &service, "/spec/ports/0/port", json!(81), Ok(None)),
        ("", "Pod", &pod, "/spec/containers/0/image", json!("other"), Ok(Some(2))),
        ("", "Pod", &pod, "/spec/dnsPolicy", json!("Default"), Err("spec")),
        ("", "Pod", &pod, "/status/phase", json!("Running"), Ok(Some(1))),
    ];
    for (group, kind, old, path, value, expected) in cases {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        let result = update(group, kind, new, old);
        match expected {
            Ok(generation) => {
                let changed = result.unwrap_or_else(|e| panic!("{kind} {path}: {e}"));
                let counted = changed["metadata"].get("generation").and_then(Value::as_i64);
                assert_eq!(counted, generation, "{kind} {path}");
                assert_eq!(changed.get("status"), old.get("status"), "{kind} {path}");
            }
            Err(field) => {
                let refused = result.expect_err(path);
                let causes = refused.details.unwrap().causes;
                assert!(
                    causes.iter().any(|cause| cause.field == field),
                    "{kind} {path}: {causes:?}"
                );
            }
        }
    }
}

#[test]
fn a_refused_change_of_a_pod_is_shown_with_its_surroundings() {
    let mut old = create("", "Pod", pod(json!({}))).unwrap();
    old["metadata"]["resourceVersion"] = json!("1");
    let mut new = old.clone();
    new["spec"]["nodeName"] = json!("n");
    let refused = update("", "Pod", new, &old).unwrap_err();
    let shown = refused.message.split_once('\n').map(|(_, shown)| shown.to_owned());
    let expected = concat!(
        "@@ -42,7 +42,7 @@\n",
        "  \"NodeSelector\": null,\n",
        "  \"ServiceAccountName\": \"\",\n",
        "  \"AutomountServiceAccountToken\": null,\n",
        "- \"NodeName\": \"\",\n",
        "+ \"NodeName\": \"n\",\n",
        "  \"SecurityContext\": {\n",
        "   \"HostNetwork\": false,\n",
        "   \"HostPID\": false,\n",
    );
    assert_eq!(shown.as_deref(), Some(expected));
}
