//! Tokens, callers and reviews against a store.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_objects::meta;

use super::*;
use crate::store::{Expect, Limits};

fn put(store: &Store, resource: &str, value: Value) {
    let key = (meta::namespace(&value).to_owned(), meta::name(&value).to_owned());
    let there = store.get(resource, &key.0, &key.1);
    let expect = there.map_or(Expect::Absent, |object| Expect::Revision(object.revision));
    store.put(resource, key, expect, value).unwrap();
}

fn store() -> Store {
    let store = Store::new(Limits::default());
    for (resource, value) in bootstrap() {
        put(&store, resource, value);
    }
    let named =
        |name: &str, uid: &str| json!({"metadata": {"namespace": "a", "name": name, "uid": uid}});
    put(&store, "serviceaccounts", named("sa", "u-sa"));
    put(&store, "secrets", named("s", "u-secret"));
    put(&store, "nodes", json!({"metadata": {"name": "n1", "uid": "u-node"}}));
    put(
        &store,
        "pods",
        json!({"metadata": {"namespace": "a", "name": "p", "uid": "u-pod"},
            "spec": {"nodeName": "n1", "serviceAccountName": "sa"}}),
    );
    store
}

fn clock() -> Clock {
    Clock::by_hand("2026-01-02T03:04:05Z".parse().unwrap())
}

fn auth(mode: Mode) -> Auth {
    Auth::new(mode, clock()).unwrap().with_token("root", User::admin())
}

fn request(spec: Value) -> Value {
    json!({"spec": spec})
}

fn bound(kind: &str, name: &str) -> Value {
    request(json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}))
}

fn token(auth: &Auth, store: &Store, request: Value) -> String {
    let answer = auth.issue("a", "sa", request, store).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

fn headers(list: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in list {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, value.parse().unwrap());
    }
    headers
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
fn callers_are_known_by_token_or_by_default() {
    let store = store();
    let open = auth(Mode::Open);
    let strict = auth(Mode::Strict);
    let account = format!("Bearer {}", token(&strict, &store, request(json!({}))));
    let name = |auth: &Auth, list: &[(&str, &str)]| {
        auth.authenticate(&headers(list), &store).map(|user| user.name).map_err(|s| s.code)
    };
    assert_eq!(name(&open, &[]).unwrap(), "system:admin");
    assert_eq!(name(&strict, &[]), Err(401));
    assert_eq!(name(&open, &[("authorization", "Bearer junk")]), Err(401));
    assert_eq!(name(&strict, &[("authorization", "bearer root")]).unwrap(), "system:admin");
    assert_eq!(name(&strict, &[("authorization", "Basic root")]), Err(401));
    assert_eq!(
        name(&strict, &[("authorization", &account)]).unwrap(),
        "system:serviceaccount:a:sa"
    );
}

#[test]
fn impersonation_needs_leave_and_holds_the_user_to_rbac_in_every_mode() {
    let store = store();
    let list =
        Attributes { verb: "list", resource: "pods", namespace: "a", ..Attributes::default() };
    let refused = "pods is forbidden: User \"lea\" cannot list resource \"pods\" in API group \"\" in the namespace \"a\"";
    let open = auth(Mode::Open);
    let lea = open.authenticate(&headers(&[("impersonate-user", "lea")]), &store).unwrap();
    assert_eq!(lea.groups, [AUTHENTICATED]);
    assert_eq!(open.authorize(&lea, &list, &store).unwrap_err().message, refused);
    assert!(open.authorize(&User::new("ann", &[]), &list, &store).is_ok());

    let strict = auth(Mode::Strict).with_token("ann", User::new("ann", &[AUTHENTICATED]));
    let ask = headers(&[("authorization", "Bearer ann"), ("impersonate-user", "lea")]);
    assert_eq!(
        strict.authenticate(&ask, &store).unwrap_err().message,
        "users \"lea\" is forbidden: User \"ann\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
    let ask = headers(&[
        ("authorization", "Bearer root"),
        ("impersonate-user", "system:serviceaccount:a:sa"),
        ("impersonate-extra-example.com%2fteam", "blue"),
        ("impersonate-uid", "u1"),
    ]);
    let user = strict.authenticate(&ask, &store).unwrap();
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
    );
    assert_eq!((user.uid.as_str(), &user.extra["example.com/team"]), ("u1", &vec!["blue".into()]));
    let ask = headers(&[("impersonate-group", "crew")]);
    assert_eq!(open.authenticate(&ask, &store).unwrap_err().code, 500);
}

#[test]
fn refusals_name_the_user_the_verb_and_the_thing() {
    let (auth, store) = (auth(Mode::Strict), store());
    let user = User::new("lea", &[]);
    let base = Attributes { verb: "get", ..Attributes::default() };
    for (attributes, expected) in [
        (
            Attributes { resource: "pods", subresource: "log", name: "p", namespace: "a", ..base },
            "pods \"p\" is forbidden: User \"lea\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"a\"",
        ),
        (
            Attributes { group: "batch", resource: "jobs", ..base },
            "jobs.batch is forbidden: User \"lea\" cannot get resource \"jobs\" in API group \"batch\" at the cluster scope",
        ),
        (
            Attributes { path: "/metrics", ..base },
            "forbidden: User \"lea\" cannot get path \"/metrics\"",
        ),
    ] {
        let status = auth.authorize(&user, &attributes, &store).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (403, expected));
    }
}

#[test]
fn the_first_roles_allow_what_those_of_a_cluster_allow() {
    let store = store();
    put(
        &store,
        "rolebindings.rbac.authorization.k8s.io",
        json!({"metadata": {"namespace": "a", "name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "User", "name": "edith"}]}),
    );
    put(
        &store,
        "rolebindings.rbac.authorization.k8s.io",
        json!({"metadata": {"namespace": "a", "name": "c"},
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "vic"}]}),
    );
    for (user, verb, resource, expected) in [
        ("edith", "create", "pods", true),
        ("edith", "list", "pods", true),
        ("edith", "get", "secrets", true),
        ("edith", "create", "roles.rbac.authorization.k8s.io", false),
        ("vic", "list", "pods", true),
        ("vic", "get", "secrets", false),
        ("vic", "create", "pods", false),
        ("system:kube-scheduler", "create", "pods/binding", true),
        ("system:kube-scheduler", "create", "pods", false),
    ] {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let attributes = Attributes {
            verb,
            group,
            resource,
            subresource,
            namespace: "a",
            ..Attributes::default()
        };
        let decision = decide(&User::new(user, &[AUTHENTICATED]), &attributes, &store);
        assert_eq!(decision.allowed, expected, "{user} {verb} {resource}");
    }
    let path = |path| Attributes { verb: "get", path, ..Attributes::default() };
    assert!(decide(&User::new("x", &[UNAUTHENTICATED]), &path("/version"), &store).allowed);
    assert!(!decide(&User::new("x", &[UNAUTHENTICATED]), &path("/api"), &store).allowed);
    assert!(decide(&User::new("x", &[AUTHENTICATED]), &path("/api/v1"), &store).allowed);
}

#[test]
fn access_reviews_answer_with_the_reason() {
    let store = store();
    let spec = json!({"user": "kim", "groups": ["system:authenticated"],
        "resourceAttributes": {"verb": "create", "group": "authorization.k8s.io",
            "resource": "selfsubjectaccessreviews"}});
    let answer = subject_access_review(json!({"spec": spec}), &store).unwrap();
    assert_eq!(
        answer["status"],
        json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"system:basic-user\" of ClusterRole \"system:basic-user\" to Group \"system:authenticated\""})
    );
    let ask = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let own = |user: &User| self_subject_access_review(ask.clone(), user, &store).unwrap();
    assert_eq!(own(&User::admin())["status"], json!({"allowed": true}));
    assert_eq!(own(&User::new("kim", &[]))["status"], json!({"allowed": false}));
    let local = json!({"spec": {"user": "kim", "resourceAttributes": {"namespace": "b", "verb": "get", "resource": "pods"}}});
    let status = local_subject_access_review(local, "a", &store).unwrap_err();
    assert_eq!(
        status.message,
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"b\": must match metadata.namespace"
    );
    let status = subject_access_review(json!({"spec": {}}), &store).unwrap_err();
    assert_eq!(
        status.message,
        ".authorization.k8s.io \"\" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: \"\": at least one of user or group must be specified]"
    );
}

#[test]
fn a_rules_review_lists_resources_and_paths_apart() {
    let store = store();
    let ask = json!({"spec": {"namespace": "a"}});
    let answer =
        self_subject_rules_review(&ask, &User::new("kim", &[AUTHENTICATED]), &store).unwrap();
    let status = &answer["status"];
    assert_eq!(status["incomplete"], false);
    assert_eq!(
        status["resourceRules"][0],
        json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]})
    );
    assert_eq!(status["nonResourceRules"][0]["verbs"], json!(["get"]));
    let node = self_subject_rules_review(&ask, &User::node("n1"), &store).unwrap();
    assert_eq!(node["status"]["incomplete"], true);
    let status = self_subject_rules_review(&json!({}), &User::admin(), &store).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (400, "no namespace on request"));
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
