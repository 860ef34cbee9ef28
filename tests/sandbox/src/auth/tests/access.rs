//! Who callers are and what they may do.

use super::*;

fn headers(list: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in list {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, value.parse().unwrap());
    }
    headers
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
