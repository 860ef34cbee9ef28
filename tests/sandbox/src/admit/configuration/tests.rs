//! What a configuration may say.

use super::*;

fn webhook() -> Value {
    json!({
        "name": "a.example.com",
        "clientConfig": {"service": {"namespace": "ops", "name": "hook"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

#[test]
fn absent_fields_get_their_defaults_and_given_ones_stay() {
    let mut object = json!({"webhooks": [webhook()]});
    object["webhooks"][0]["timeoutSeconds"] = json!(5);
    default_configuration(&mut object, "MutatingWebhookConfiguration");
    let mut expected = webhook();
    for (field, value) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("timeoutSeconds", json!(5)),
        ("reinvocationPolicy", json!("Never")),
    ] {
        expected[field] = value;
    }
    expected["rules"][0]["scope"] = json!("*");
    expected["clientConfig"]["service"]["port"] = json!(443);
    assert_eq!(object, json!({"webhooks": [expected]}));

    let mut object = json!({"webhooks": [webhook()]});
    default_configuration(&mut object, "ValidatingWebhookConfiguration");
    assert!(object["webhooks"][0].get("reinvocationPolicy").is_none());
    assert_eq!(object["webhooks"][0]["timeoutSeconds"], 10);
}

#[test]
fn each_fault_is_named_with_its_field() {
    let url = |url: &str| ("/clientConfig", json!({"url": url}));
    let service = |path: &str| ("/clientConfig/service/path", json!(path));
    for ((pointer, value), expected) in [
        (("/name", json!("")), "webhooks[0].name: Required value"),
        (
            ("/name", json!("a.b")),
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        ),
        (
            ("/sideEffects", Value::Null),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (
            ("/sideEffects", json!("Some")),
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        ),
        (
            ("/failurePolicy", json!("Retry")),
            "webhooks[0].failurePolicy: Unsupported value: \"Retry\": supported values: \"Fail\", \"Ignore\"",
        ),
        (
            ("/timeoutSeconds", json!(31)),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            ("/admissionReviewVersions", json!([])),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            ("/admissionReviewVersions", json!(["v2"])),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
        (
            ("/admissionReviewVersions", json!(["v1", "v1"])),
            "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v1\": duplicate version",
        ),
        (
            ("/clientConfig", json!({})),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            url("http://127.0.0.1/x"),
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            url("https://127.0.0.1/x?a=b"),
            "webhooks[0].clientConfig.url: Invalid value: \"a=b\": query parameters are not permitted in the URL",
        ),
        (
            url("https://127.0.0.1/x#y"),
            "webhooks[0].clientConfig.url: Invalid value: \"y\": fragments are not permitted in the URL",
        ),
        (
            url("https://me@127.0.0.1/x"),
            "webhooks[0].clientConfig.url: Invalid value: \"me\": user information is not permitted in the URL",
        ),
        (
            service("xy"),
            "webhooks[0].clientConfig.service.path: Invalid value: \"xy\": must start with a '/'",
        ),
        (
            service("/a//b"),
            "webhooks[0].clientConfig.service.path: Invalid value: \"/a//b\": segment[1] may not be empty",
        ),
        (("/rules/0/operations", json!([])), "webhooks[0].rules[0].operations: Required value"),
        (
            ("/rules/0/operations", json!(["*", "CREATE"])),
            "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
        ),
        (
            ("/rules/0/operations", json!(["PATCH"])),
            "webhooks[0].rules[0].operations[0]: Unsupported value: \"PATCH\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
        ),
        (
            ("/rules/0/apiVersions", json!([""])),
            "webhooks[0].rules[0].apiVersions[0]: Required value",
        ),
        (
            ("/rules/0/resources", json!(["*/*", "pods"])),
            "webhooks[0].rules[0].resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
        ),
        (
            ("/rules/0/resources", json!(["pods/*", "pods/status"])),
            "webhooks[0].rules[0].resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
        ),
        (
            ("/objectSelector/matchExpressions", json!([{"key": "a", "operator": "In"}])),
            "webhooks[0].objectSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ] {
        let mut object = json!({"webhooks": [webhook()]});
        default_configuration(&mut object, "ValidatingWebhookConfiguration");
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(&format!("/webhooks/0{parent}")).unwrap();
        match parent.as_array_mut() {
            Some(list) => list[0] = value,
            None => parent[field] = value,
        }
        let errors = validate_configuration(&object, "ValidatingWebhookConfiguration");
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, [expected]);
    }
}

#[test]
fn a_sound_configuration_has_no_faults_and_names_are_unique() {
    let mut object = json!({"webhooks": [webhook(), webhook()]});
    default_configuration(&mut object, "MutatingWebhookConfiguration");
    let errors = validate_configuration(&object, "MutatingWebhookConfiguration");
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["webhooks[1].name: Duplicate value: \"a.example.com\""]);
}

#[test]
fn a_binding_names_a_policy_and_what_to_do() {
    for (spec, expected) in [
        (json!({"policyName": "p", "validationActions": ["Deny", "Audit"]}), vec![]),
        (
            json!({}),
            vec![
                "spec.policyName: Required value",
                "spec.validationActions: Required value: at least one validation action is required",
            ],
        ),
        (
            json!({"policyName": "p", "validationActions": ["Deny", "Warn"]}),
            vec![
                "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
            ],
        ),
        (
            json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": {}}),
            vec![
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
        ),
    ] {
        let errors =
            validate_configuration(&json!({"spec": spec}), "ValidatingAdmissionPolicyBinding");
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }
}
