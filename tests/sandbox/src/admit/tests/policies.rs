//! ValidatingAdmissionPolicies with their bindings.

use super::*;

fn policy(store: &Store, spec: Value) {
    let mut object = json!({"metadata": {"name": "p", "uid": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""],
            "apiVersions": ["v1"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "object.data.size() < 2", "message": "too much"}],
    }});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    default_configuration(&mut object, "ValidatingAdmissionPolicy");
    put(store, "validatingadmissionpolicies.admissionregistration.k8s.io", object);
}

fn bind(store: &Store, spec: Value) {
    let mut object = json!({"metadata": {"name": "b", "uid": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    default_configuration(&mut object, "ValidatingAdmissionPolicyBinding");
    assert_eq!(validate_configuration(&object, "ValidatingAdmissionPolicyBinding"), []);
    put(store, "validatingadmissionpolicybindings.admissionregistration.k8s.io", object);
}

async fn validate(store: &Arc<Store>, data: Value) -> (Result<(), Status>, Vec<String>) {
    let user = User::admin();
    let mut attempt = create(&user, "configmaps", config_map(data));
    let result = admission(store).validate(&mut attempt).await;
    (result, attempt.warnings)
}

const MUCH: &str = "too much";

fn much() -> Value {
    json!({"a": "1", "b": "2"})
}

#[tokio::test]
async fn a_bound_policy_denies_and_an_unbound_one_does_not() {
    let store = store();
    policy(&store, json!({}));
    assert_eq!(validate(&store, much()).await.0, Ok(()));
    bind(&store, json!({}));
    let status = validate(&store, much()).await.0.unwrap_err();
    let sentence = format!("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {MUCH}");
    assert_eq!(status.message, format!("configmaps \"c\" is forbidden: {sentence}"));
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    assert_eq!(status.details.unwrap().causes[0].message, sentence);
    assert_eq!(validate(&store, json!({"a": "1"})).await.0, Ok(()));
}

#[tokio::test]
async fn the_reason_of_a_validation_sets_the_code() {
    let store = store();
    let validations = json!([{"expression": "false", "message": "never", "reason": "Forbidden"}]);
    policy(&store, json!({"validations": validations}));
    bind(&store, json!({}));
    let status = validate(&store, json!({})).await.0.unwrap_err();
    assert_eq!((status.code, &*status.reason), (403, "Forbidden"));
}

#[tokio::test]
async fn a_binding_may_warn_and_may_match_less() {
    let store = store();
    policy(&store, json!({}));
    bind(&store, json!({"validationActions": ["Warn", "Audit"]}));
    let (result, warnings) = validate(&store, much()).await;
    assert_eq!(result, Ok(()));
    assert_eq!(
        warnings,
        [format!("Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': {MUCH}")]
    );
    for (team, denied) in [("blue", true), ("red", false)] {
        bind(
            &store,
            json!({"matchResources": {"namespaceSelector": {"matchLabels": {"team": team}}}}),
        );
        assert_eq!(validate(&store, much()).await.0.is_err(), denied, "{team}");
    }
}

#[tokio::test]
async fn a_changed_policy_counts_from_its_next_revision_on() {
    let store = store();
    policy(&store, json!({}));
    bind(&store, json!({}));
    let user = User::admin();
    let admission = admission(&store);
    let mut attempt = create(&user, "configmaps", config_map(much()));
    assert!(admission.validate(&mut attempt).await.is_err());
    policy(&store, json!({"validations": [{"expression": "true"}]}));
    assert_eq!(admission.validate(&mut attempt).await, Ok(()));
}

#[tokio::test]
async fn parameters_are_found_by_name_or_by_labels() {
    let store = store();
    let validations =
        json!([{"expression": "object.data.size() <= int(params.data.max)", "message": MUCH}]);
    policy(
        &store,
        json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": validations}),
    );
    let limit = |name: &str, max: &str| json!({"metadata": {"namespace": "a", "name": name, "labels": {"is": "limit"}}, "data": {"max": max}});
    let by_name =
        |action: &str| json!({"paramRef": {"name": "one", "parameterNotFoundAction": action}});
    bind(&store, by_name("Allow"));
    assert_eq!(validate(&store, much()).await.0, Ok(()));
    bind(&store, by_name("Deny"));
    assert_eq!(
        validate(&store, much()).await.0.unwrap_err().message,
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    );
    put(&store, "configmaps", limit("one", "2"));
    assert_eq!(validate(&store, much()).await.0, Ok(()));
    put(&store, "configmaps", limit("two", "1"));
    let selector =
        json!({"selector": {"matchLabels": {"is": "limit"}}, "parameterNotFoundAction": "Deny"});
    bind(&store, json!({"paramRef": selector}));
    assert!(validate(&store, much()).await.0.is_err());
}
