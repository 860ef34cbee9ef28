//! What tokens prove, and for how long.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

fn bound(kind: &str, name: &str) -> Value {
    request(json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}))
}

fn claims(token: &str) -> Value {
    let middle = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(middle).unwrap()).unwrap()
}

#[test]
fn a_pod_bound_token_carries_the_pod_and_its_node() {
    let (auth, store) = (auth(Mode::Strict), store());
    let answer = auth.issue("a", "sa", bound("Pod", "p"), &store).unwrap();
    assert_eq!(answer["status"]["expirationTimestamp"], "2026-01-02T04:04:05Z");
    assert_eq!(answer["spec"]["audiences"], json!([ISSUER]));
    let token = answer["status"]["token"].as_str().unwrap();
    let mut claims = claims(token);
    let jti = claims["jti"].take();
    let now = auth.clock.now().as_second();
    assert_eq!(
        claims,
        json!({"iss": ISSUER, "aud": [ISSUER], "sub": "system:serviceaccount:a:sa", "jti": null,
            "iat": now, "nbf": now, "exp": now + 3600,
            "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "sa", "uid": "u-sa"},
                "pod": {"name": "p", "uid": "u-pod"}, "node": {"name": "n1", "uid": "u-node"}}})
    );
    let status = auth.review_token(token, &[], &store);
    assert_eq!(
        status,
        json!({"authenticated": true, "audiences": [ISSUER], "user": {
        "username": "system:serviceaccount:a:sa", "uid": "u-sa",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
        "extra": {
            "authentication.kubernetes.io/credential-id": [format!("JTI={}", jti.as_str().unwrap())],
            "authentication.kubernetes.io/pod-name": ["p"],
            "authentication.kubernetes.io/pod-uid": ["u-pod"],
            "authentication.kubernetes.io/node-name": ["n1"],
            "authentication.kubernetes.io/node-uid": ["u-node"],
        }}})
    );
}

#[test]
fn the_mounted_token_lives_a_year_but_warns_after_an_hour() {
    let (auth, store) = (auth(Mode::Strict), store());
    let mut request = bound("Pod", "p");
    request["spec"]["expirationSeconds"] = json!(3607);
    let claims = claims(&token(&auth, &store, request));
    let now = auth.clock.now().as_second();
    assert_eq!(claims["exp"], now + 31_536_000);
    assert_eq!(claims["kubernetes.io"]["warnafter"], now + 3607);
}

#[test]
fn token_requests_that_cannot_be_met_are_refused() {
    let (auth, store) = (auth(Mode::Strict), store());
    let with_uid = |mut request: Value, uid: &str| {
        request["spec"]["boundObjectRef"]["uid"] = json!(uid);
        request
    };
    for (account, request, code, message) in [
        (
            "sa",
            request(json!({"expirationSeconds": 599})),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        ),
        (
            "sa",
            request(json!({"expirationSeconds": 4_294_967_297_i64})),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
        ),
        ("sb", request(json!({})), 404, "serviceaccounts \"sb\" not found"),
        ("sa", bound("Pod", "q"), 404, "pods \"q\" not found"),
        ("sa", bound("Node", "n2"), 404, "nodes \"n2\" not found"),
        (
            "sa",
            bound("ConfigMap", "c"),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            "sa",
            with_uid(bound("Pod", "p"), "old"),
            409,
            "Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated",
        ),
        (
            "sa",
            json!({"metadata": {"name": "x"}}),
            422,
            "TokenRequest.authentication.k8s.io \"sa\" is invalid: metadata.name: Invalid value: \"x\": must match the service account name if specified",
        ),
    ] {
        let status = auth.issue("a", account, request, &store).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (code, message));
    }
    put(&store, "serviceaccounts", json!({"metadata": {"namespace": "a", "name": "sb"}}));
    let status = auth.issue("a", "sb", bound("Pod", "p"), &store).unwrap_err();
    assert_eq!(
        status.message,
        "cannot bind token for serviceaccount \"sb\" to pod running with different serviceaccount name."
    );
}

#[test]
fn a_token_dies_with_its_time_and_with_what_it_is_bound_to() {
    type Change = fn(&Auth, &Store);
    let cases: [(Value, Change, &str); 8] = [
        (
            request(json!({})),
            |auth, _| auth.clock.advance(Duration::from_secs(3661)),
            "service account token has expired",
        ),
        (
            request(json!({})),
            |_, store| gone(store, "serviceaccounts", "a", "sa"),
            "serviceaccounts \"sa\" not found",
        ),
        (
            request(json!({})),
            |_, store| renewed(store, "serviceaccounts", "a", "sa"),
            "service account UID (u-new) does not match claim (u-sa)",
        ),
        (
            bound("Pod", "p"),
            |_, store| gone(store, "pods", "a", "p"),
            "service account token has been invalidated",
        ),
        (
            bound("Pod", "p"),
            |_, store| renewed(store, "pods", "a", "p"),
            "pod UID (u-new) does not match service account pod ref claim (u-pod)",
        ),
        (
            bound("Node", "n1"),
            |_, store| gone(store, "nodes", "", "n1"),
            "service account token has been invalidated",
        ),
        (
            bound("Secret", "s"),
            |_, store| renewed(store, "secrets", "a", "s"),
            "secret UID (u-new) does not match service account secret ref claim (u-secret)",
        ),
        (
            bound("Pod", "p"),
            |auth, store| {
                let mut pod = store.get("pods", "a", "p").unwrap().value.clone();
                pod["metadata"]["deletionTimestamp"] = json!(auth.clock.stamp());
                put(store, "pods", pod);
                auth.clock.advance(Duration::from_secs(61));
            },
            "service account token has been invalidated",
        ),
    ];
    for (request, change, expected) in cases {
        let (auth, store) = (auth(Mode::Strict), store());
        let token = token(&auth, &store, request);
        assert_eq!(auth.review_token(&token, &[], &store)["authenticated"], true);
        change(&auth, &store);
        let status = auth.review_token(&token, &[], &store);
        assert_eq!(status["error"], format!("[invalid bearer token, {expected}]"));
        assert!(status.get("authenticated").is_none());
    }
}

fn gone(store: &Store, resource: &str, namespace: &str, name: &str) {
    let there = store.get(resource, namespace, name).unwrap();
    let key = (namespace.to_owned(), name.to_owned());
    store.remove(resource, &key, Expect::Revision(there.revision), there.value.clone()).unwrap();
}

fn renewed(store: &Store, resource: &str, namespace: &str, name: &str) {
    let mut value = store.get(resource, namespace, name).unwrap().value.clone();
    value["metadata"]["uid"] = json!("u-new");
    put(store, resource, value);
}

#[test]
fn a_minute_of_grace_covers_clocks_that_differ() {
    let (auth, store) = (auth(Mode::Strict), store());
    let token = token(&auth, &store, request(json!({})));
    auth.clock.advance(Duration::from_secs(3660));
    assert_eq!(auth.review_token(&token, &[], &store)["authenticated"], true);
}

#[test]
fn forged_and_foreign_tokens_and_wrong_audiences_are_told_apart() {
    let (auth, store) = (auth(Mode::Strict), store());
    let ours = token(&auth, &store, request(json!({"audiences": ["hub"]})));
    let theirs = token(&self::auth(Mode::Strict), &store, request(json!({})));
    let mut bent = ours.clone();
    let at = bent.rfind('.').unwrap() + 1;
    bent.replace_range(at..=at, if &bent[at..=at] == "A" { "B" } else { "A" });
    let hub = ["hub".to_owned()];
    let error = |token: &str, audiences: &[String]| {
        auth.review_token(token, audiences, &store)["error"].as_str().map(str::to_owned)
    };
    assert_eq!(error("junk", &[]).unwrap(), "invalid bearer token");
    assert_eq!(
        error(&theirs, &[]).unwrap(),
        "[invalid bearer token, invalid signature, no keys found]"
    );
    assert_eq!(
        error(&bent, &hub).unwrap(),
        "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"
    );
    assert_eq!(
        error(&ours, &[]).unwrap(),
        format!(
            "[invalid bearer token, token audiences [\"hub\"] is invalid for the target audiences [{ISSUER:?}]]"
        )
    );
    assert_eq!(error(&ours, &hub), None);
    assert_eq!(auth.review_token(&ours, &hub, &store)["audiences"], json!(["hub"]));
}

#[test]
fn a_token_verifies_with_the_published_key() {
    let (auth, store) = (auth(Mode::Strict), store());
    let token = token(&auth, &store, request(json!({})));
    let key = auth.jwks()["keys"][0].clone();
    let part = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let point = [vec![4], part("x"), part("y")].concat();
    let (body, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let verifier =
        ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point);
    assert!(verifier.verify(body.as_bytes(), &signature).is_ok());
}

#[test]
fn a_token_review_needs_a_token() {
    let (auth, store) = (auth(Mode::Open), store());
    let status = token_review(&auth, json!({"spec": {}}), &store).unwrap_err();
    assert_eq!(status.message, "token is required for TokenReview in authentication");
    let answer = token_review(&auth, json!({"spec": {"token": "root"}}), &store).unwrap();
    assert_eq!(answer["kind"], "TokenReview");
    assert_eq!(answer["status"]["user"]["username"], "system:admin");
}
