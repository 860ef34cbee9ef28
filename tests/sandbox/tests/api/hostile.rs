//! Clients that mean harm, or have bad luck: each gets its answer, and everybody else is served on.

use bytes::Bytes;
use http::Method;
use muster_sandbox::Sandbox;
use serde_json::{Value, json};

use super::caller::*;
use super::panics;
use super::wire::{Wire, code};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MIB: usize = 1024 * 1024;

async fn still_serves(sandbox: &Sandbox) {
    http(sandbox, Method::GET, "/api/v1/namespaces/default", JSON, "").await.expect(200);
    panics::assert_none();
}

#[tokio::test]
async fn a_body_over_three_mebibytes_is_413_and_the_client_sees_it() {
    let sandbox = bare().await;
    for size in [3 * MIB + 1, 8 * MIB] {
        let status = http(&sandbox, Method::POST, MAPS, JSON, vec![b' '; size]).await.expect(413);
        assert_eq!(status["reason"], "RequestEntityTooLarge");
    }
    // Announced, or in chunks of which nobody knows how many come.
    let mut wire = Wire::open(&sandbox).await;
    let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n";
    wire.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n")).await;
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(MIB));
    for _ in 0..5 {
        wire.send(&chunk).await;
    }
    wire.send("0\r\n\r\n").await;
    assert_eq!(code(&wire.head().await), Some(413));
    // Exactly the limit is read, and refused for what it says.
    let answer = http(&sandbox, Method::POST, MAPS, JSON, vec![b' '; 3 * MIB]).await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    still_serves(&sandbox).await;
}

#[tokio::test]
async fn unfinished_and_meaningless_requests_disturb_nobody() {
    let sandbox = bare().await;
    let post = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n";
    let huge = format!("GET /api HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(MIB));
    let many = format!("GET /api HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(5000));
    let long = format!("GET /api/v1/{} HTTP/1.1\r\nHost: x\r\n\r\n", "z".repeat(100_000));
    let cases: [(&str, Vec<u8>, &[u16]); 12] = [
        ("nothing", Vec::new(), &[]),
        ("noise", (0..=255_u8).cycle().take(5000).collect(), &[400]),
        ("half a line", b"GET /api".to_vec(), &[]),
        ("half a head", b"GET /api HTTP/1.1\r\nHost: x\r\n".to_vec(), &[]),
        ("half a body", format!("{post}Content-Length: 100\r\n\r\n{{\"a\"").into(), &[400]),
        ("a bad length", format!("{post}Content-Length: -1\r\n\r\n").into(), &[400]),
        ("a bad chunk", format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n").into(), &[400]),
        ("huge header", huge.into_bytes(), &[431]),
        ("many headers", many.into_bytes(), &[431]),
        ("long path", long.into_bytes(), &[414, 404]),
        ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        ("http/2 noise", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff".to_vec(), &[]),
    ];
    for (what, bytes, codes) in cases {
        let mut wire = Wire::open(&sandbox).await;
        wire.send(&bytes).await;
        let answer = wire.rest().await;
        // No answer at all is fair for what is no request; an answer must be the right one.
        let fair = code(&answer).is_none_or(|code| codes.contains(&code));
        assert!(fair, "{what}: {answer:.200}");
        still_serves(&sandbox).await;
    }
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_answered() {
    let sandbox = bare().await;
    let mut wire = Wire::open(&sandbox).await;
    for byte in b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" {
        wire.send([*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(code(&wire.head().await), Some(200));
    still_serves(&sandbox).await;
}

#[tokio::test]
async fn deep_and_broken_bodies_are_400_in_every_media_type() {
    let sandbox = bare().await;
    let object = json!({"metadata": {"name": "x"}});
    post(&sandbox, MAPS, &object).await.expect(201);
    let one = format!("{MAPS}/x");
    let lists = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let maps = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]\n";
    let bodies: [Bytes; 8] = [
        lists.into(),
        maps.into(),
        "- ".repeat(100_000).into(),
        laughs.into(),
        Bytes::from_static(b"{\"metadata\":{\"name\":\"\xff\xfe\"}}"),
        Bytes::from_static(b"\x00\x00\x00"),
        "{\"metadata\":{\"name\":\"\\ud800\"}}".into(),
        "{\"a\":1e999999}".into(),
    ];
    for body in bodies {
        for (method, path, media) in [
            (Method::POST, MAPS, JSON),
            (Method::POST, MAPS, "application/yaml"),
            (Method::PUT, &*one, JSON),
            (Method::PATCH, &*one, MERGE),
            (Method::PATCH, &*one, STRATEGIC),
            (Method::PATCH, &*one, JSON_PATCH),
            (Method::PATCH, &*format!("{one}?fieldManager=m"), APPLY),
            (Method::DELETE, &*format!("{MAPS}/other"), JSON),
        ] {
            let answer = http(&sandbox, method.clone(), path, media, body.clone()).await;
            let shown = String::from_utf8_lossy(&body[..body.len().min(20)]).into_owned();
            assert!(
                matches!(answer.code, 400 | 404 | 422),
                "{method} {media} {shown}: {} {}",
                answer.code,
                answer.body
            );
            assert_eq!(answer.body["kind"], "Status", "{method} {media} {shown}");
        }
    }
    still_serves(&sandbox).await;
}

fn loose_crd() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.dev"},
        "spec": {"group": "x.dev", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[tokio::test]
async fn patches_cannot_dig_an_object_too_deep_to_be_read() {
    let sandbox = bare().await;
    post(&sandbox, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &loose_crd())
        .await
        .expect(201);
    let all = "/apis/x.dev/v1/namespaces/default/things";
    let thing =
        json!({"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "x"}, "s": {}});
    post(&sandbox, all, &thing).await.expect(201);
    // Each copy doubles the depth.
    let mut steps = vec![json!({"op": "add", "path": "/s/a", "value": {}})];
    for n in 0..16 {
        let bottom = format!("/s{}", "/a".repeat(1 << n));
        steps.push(json!({"op": "copy", "from": "/s/a", "path": "/t"}));
        steps.push(json!({"op": "move", "from": "/t", "path": format!("{bottom}/a")}));
    }
    let body = Value::Array(steps).to_string();
    let one = format!("{all}/x");
    let answer = http(&sandbox, Method::PATCH, &one, JSON_PATCH, body).await;
    assert!(matches!(answer.code, 400 | 413 | 422), "{}", answer.code);
    // Or deeper by a hundred with every request.
    let deep = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
    let mut path = "/s".to_owned();
    let mut refused = false;
    for _ in 0..20 {
        let body = json!([{"op": "add", "path": format!("{path}/a"), "value": deep}]);
        let answer = http(&sandbox, Method::PATCH, &one, JSON_PATCH, body.to_string()).await;
        refused |= answer.code != 200;
        path.push_str(&"/a".repeat(101));
    }
    assert!(refused, "an object as deep as one likes");
    // Whatever is stored can be read by a client that stops at serde's 128 levels.
    assert!(http(&sandbox, Method::GET, &one, JSON, "").await.expect(200).is_object());
    still_serves(&sandbox).await;
}

#[tokio::test]
async fn expressions_nested_without_end_are_refused() {
    let sandbox = bare().await;
    for expression in [
        format!("{}1{} == 1", "(".repeat(50_000), ")".repeat(50_000)),
        format!("{}true", "!".repeat(50_000)),
        format!("{}{}", "[".repeat(50_000), "]".repeat(50_000)),
        format!("1{} == 1", "+1".repeat(50_000)),
        format!("{}true", "true && ".repeat(20_000)),
        format!("object{} == 1", ".a".repeat(20_000)),
    ] {
        let mut crd = loose_crd();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object",
            "x-kubernetes-validations": [{"rule": expression}]});
        let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let answer = http(&sandbox, Method::POST, all, JSON, crd.to_string()).await;
        assert_eq!(answer.code, 422, "{expression:.20}");
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"],
                "operations": ["*"], "resources": ["*"]}]},
            "validations": [{"expression": expression}]}});
        let all = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        let answer = http(&sandbox, Method::POST, all, JSON, policy.to_string()).await;
        assert_eq!(answer.code, 422, "{expression:.20}");
    }
    still_serves(&sandbox).await;
}

#[tokio::test]
async fn odd_paths_and_queries_get_an_answer_that_fits() {
    let sandbox = bare().await;
    let many: String = (0..10_000).map(|n| format!("a{n}=b&")).collect();
    let cases: Vec<(String, u16)> = vec![
        (format!("{MAPS}/a%00b"), 404),
        (format!("{MAPS}/a%2Fb"), 404),
        (format!("{MAPS}/%2e%2e/secrets"), 404),
        (format!("{MAPS}/%ff%fe"), 404),
        (format!("{MAPS}/%zz"), 404),
        (format!("{MAPS}/x/y/z/w"), 404),
        ("/api/v1/namespaces/%00/configmaps".into(), 200),
        ("//api//v1//namespaces//default//configmaps".into(), 200),
        (format!("{MAPS}?{}", &many[..60_000]), 200),
        (format!("{MAPS}?labelSelector=%00"), 400),
        (format!("{MAPS}?labelSelector={}", "a,".repeat(10_000)), 400),
        (format!("{MAPS}?labelSelector={}", "%28".repeat(10_000)), 400),
        (format!("{MAPS}?fieldSelector=spec.x%3D1"), 400),
        (format!("{MAPS}?limit=-1"), 400),
        (format!("{MAPS}?limit=99999999999999999999"), 400),
        (format!("{MAPS}?continue=AAAA"), 400),
        (format!("{MAPS}?continue=%ff"), 400),
        (format!("{MAPS}?resourceVersion=-1"), 400),
        (format!("{MAPS}?resourceVersion=x"), 400),
        (format!("{MAPS}?watch=1&timeoutSeconds=-1"), 400),
        ("/apis/x/y/z".into(), 404),
        ("/apis/apps/v1/../v1/deployments".into(), 404),
        ("/".into(), 200),
        ("/nowhere".into(), 404),
    ];
    for (path, code) in cases {
        let answer = http(&sandbox, Method::GET, &path, JSON, "").await;
        assert_eq!(answer.code, code, "{path:.100}: {}", answer.body);
    }
    for name in ["a\u{0}b", "a/b", "..", "", "A", "é", "a\nb"] {
        let status = post(&sandbox, MAPS, &json!({"metadata": {"name": name}})).await;
        assert_eq!(status.code, 422, "{name:?}: {}", status.body);
    }
    still_serves(&sandbox).await;
}
