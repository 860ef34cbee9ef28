//! Names in requests: those that cannot be are refused where they enter, and make no path.

use muster_dijob::server::{self, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, body_of, job};

const ODD: [&str; 8] =
    ["a/b", "..", "a?b", "Team", "a b", "a#b", "-a", "../../kube-system/secrets/x"];

fn refused(method: &str, path: &str, query: &str, body: &Value, name: &str) {
    let mut world = World::new(&job());
    let answer = body_of(world.ask(method, path, query, &body.to_string()));
    let message = answer.1["message"].as_str().unwrap();
    let shown: String = name.chars().take(64).collect();
    assert_eq!(answer.0, 400, "{message}");
    assert!(message.contains(&shown), "{message}");
    assert!(message.contains("is not valid"), "{message}");
}

#[test]
fn a_name_that_cannot_be_is_refused_at_every_door_and_named() {
    let long = "a".repeat(300);
    for odd in ODD.into_iter().chain([long.as_str()]) {
        let escaped: String = form_urlencoded::byte_serialize(odd.as_bytes()).collect();
        for query in [
            format!("namespace={escaped}"),
            format!("namespace=rl&coordinator={escaped}"),
            format!("namespace=rl&aggregator={escaped}"),
            format!("namespace=rl&name={escaped}"),
        ] {
            refused("GET", server::REPLICAS, &query, &Value::Null, odd);
        }
        for method in ["POST", "DELETE"] {
            let body = json!({"namespace": odd, "coordinator": "cartpole-coordinator"});
            refused(method, server::REPLICAS, "", &body, odd);
            let body = json!({"namespace": "rl", "coordinator": odd});
            refused(method, server::REPLICAS, "", &body, odd);
        }
        let body = json!({"namespace": odd, "collectors": ["a"]});
        refused("POST", server::FAILED, "", &body, odd);
        for role in ["collectors", "learners"] {
            let body = json!({"namespace": "rl", "coordinator": "c", role: ["a", odd]});
            refused("POST", server::FAILED, "", &body, odd);
        }
    }
}

#[test]
fn whoever_reports_failed_replicas_need_not_be_known() {
    let mut world = World::new(&job());
    let body = json!({"namespace": "rl", "coordinator": "Somebody/else", "collectors": []});
    let answer = body_of(world.ask("POST", server::FAILED, "", &body.to_string()));
    assert_eq!(answer.0, 200, "{answer:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_request_makes_a_path_that_leads_elsewhere(
        namespace in "[a-zA-Z0-9./?%#-]{0,10}|\\PC{0,80}",
        name in "[a-zA-Z0-9./?%#-]{0,10}|\\PC{0,300}",
        failed in any::<bool>(),
    ) {
        let query: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("namespace", &namespace).append_pair("coordinator", &name).finish();
        let body = json!({"namespace": namespace, "coordinator": name, "learners": if failed {
            json!([name, name, "a"]) } else { json!({"replicas": 1}) }}).to_string();
        let requests = [
            Request { method: "GET", path: server::REPLICAS, query: &query, body: b"" },
            Request { method: "POST", path: server::REPLICAS, query: "", body: body.as_bytes() },
            Request { method: "POST", path: server::FAILED, query: "", body: body.as_bytes() },
        ];
        for about in requests.iter().filter_map(server::about) {
            prop_assert_eq!(about.namespace.as_str(), namespace.as_str());
            for pod in &about.pods {
                let path = format!("/api/v1/namespaces/{}/pods/{pod}", about.namespace);
                prop_assert_eq!(path.split('/').count(), 7);
                prop_assert!(path.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-./".contains(&b)));
                prop_assert!(!path.split('/').any(|part| part == "." || part == ".."));
            }
        }
    }
}
