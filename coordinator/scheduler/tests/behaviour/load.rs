//! Documents: the forms they have, and what is set aside.

use muster_scheduler::input::{Document, Limits, load};
use serde_json::json;

fn read(document: &serde_json::Value) -> Document {
    load(document.to_string().as_bytes(), Limits::default()).unwrap()
}

#[test]
fn plain_lists_a_snapshot_and_a_scenario_hold_the_same_objects() {
    let lists = json!({"nodes": [{"metadata": {"name": "n"}}], "pods": null});
    let forms = [
        lists.clone(),
        json!({"rawObjects": lists}),
        json!({"input": lists, "expect": {}}),
        json!({"input": {"rawObjects": lists}}),
    ];
    for form in forms {
        let nodes = read(&form).input.nodes;
        assert_eq!(nodes.iter().map(|node| node.metadata.name.as_str()).collect::<Vec<_>>(), ["n"]);
    }
}

#[test]
fn one_bad_object_is_set_aside_with_its_field_and_the_others_load() {
    let pod = |name: &str, cpu: &str| {
        json!({"metadata": {"name": name, "namespace": "ns"},
            "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}})
    };
    let document = json!({"pods": [pod("good", "1"), pod("negative", "-1"), pod("odd", "1x"), pod("good", "2"), {}, 7]});
    let input = read(&document).input;
    assert_eq!(input.pods.iter().map(|pod| pod.key()).collect::<Vec<_>>(), ["ns/good"]);
    let told: Vec<_> = input.set_aside.iter().map(ToString::to_string).collect();
    let field = "spec.containers[0].resources.requests.cpu";
    assert_eq!(told.len(), 5, "{told:#?}");
    assert_eq!(
        told[0],
        format!("Pod ns/negative: {field}: `-1` is negative; write an amount of zero or more")
    );
    assert!(told[1].starts_with(&format!("Pod ns/odd: {field}: `1x` is no quantity; write ")));
    assert!(told[2].starts_with("Pod pods[5]: "), "{}", told[2]);
    assert!(told.iter().any(|told| told.contains("another object has this name")));
    assert!(told.iter().any(|told| told.contains("give the object a name")));
}

#[test]
fn a_document_that_is_too_large_is_refused() {
    let limits = Limits { bytes: 10, objects: 10 };
    let error = load(b"{\"nodes\": []}", limits).unwrap_err().to_string();
    assert!(error.contains("more than 10 bytes"), "{error}");
    let limits = Limits { bytes: 100, objects: 1 };
    let error = load(b"{\"nodes\": [{},{}]}", limits).unwrap_err().to_string();
    assert!(error.contains("`nodes` has more than 1 objects"), "{error}");
}
