//! Tables of definitions.

use super::*;

fn crd(schema: Value) -> Value {
    let mut crd = json!({
        "metadata": {"name": "as.b.c"},
        "spec": {
            "group": "b.c", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    default_crd(&mut crd);
    crd
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn names_conversion_and_stored_versions_are_filled_in() {
    let crd = crd(json!({"type": "object"}));
    assert_eq!(
        crd["spec"]["names"],
        json!({"plural": "as", "kind": "A", "singular": "a", "listKind": "AList"})
    );
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert!(validate_crd(&crd).is_empty());
}

#[test]
fn broken_definitions_are_refused_in_the_words_of_kubernetes() {
    // pointer, value, errors
    let table: Vec<(&str, Value, &[&str])> = vec![
        (
            "/metadata/name",
            json!("x.b.c"),
            &[
                "metadata.name: Invalid value: \"x.b.c\": must be spec.names.plural+\".\"+spec.group",
            ],
        ),
        (
            "/spec/scope",
            json!("All"),
            &[
                "spec.scope: Unsupported value: \"All\": supported values: \"Cluster\", \"Namespaced\"",
            ],
        ),
        ("/spec/scope", json!(""), &["spec.scope: Required value"]),
        (
            "/spec/names/kind",
            json!("AList"),
            &[
                "spec.names.listKind: Invalid value: \"AList\": kind and listKind may not be the same",
            ],
        ),
        ("/spec/names/listKind", json!(""), &["spec.names.listKind: Required value"]),
        (
            "/spec/versions/0/storage",
            json!(false),
            &[
                "spec.versions: Invalid value: [{\"Name\":\"v1\",\"Served\":true,\"Storage\":false,\"Deprecated\":false,\"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}]: must have exactly one version marked as storage version",
            ],
        ),
        (
            "/spec/versions/0/schema",
            json!(null),
            &["spec.versions[0].schema.openAPIV3Schema: Required value"],
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook"}),
            &[
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
        ),
        (
            "/spec/conversion",
            json!({"strategy": "X"}),
            &[
                "spec.conversion.strategy: Unsupported value: \"X\": supported values: \"None\", \"Webhook\"",
            ],
        ),
        (
            "/status/storedVersions",
            json!([]),
            &["status.storedVersions: Invalid value: []: must have at least one stored version"],
        ),
        (
            "/status/storedVersions",
            json!(["v0", "v1"]),
            &[
                "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions",
            ],
        ),
    ];
    for (pointer, value, expected) in table {
        let mut crd = crd(json!({"type": "object"}));
        *crd.pointer_mut(pointer).unwrap() = value.clone();
        assert_eq!(texts(&validate_crd(&crd)), expected, "{pointer} = {value}");
    }
    let mut other = crd(json!({"type": "object"}));
    other["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": "spec.n", "statusReplicasPath": ".spec.n"}});
    assert_eq!(
        texts(&validate_crd(&other)),
        [
            "spec.subresources.scale.specReplicasPath: Invalid value: \"spec.n\": must be a simple json path starting with .",
            "spec.subresources.scale.statusReplicasPath: Invalid value: \".spec.n\": should be a json path under .status",
        ]
    );
    let mut other = crd(json!({"type": "object"}));
    other["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "", "type": "text", "jsonPath": ".a"}]);
    assert_eq!(
        texts(&validate_crd(&other)),
        [
            "spec.additionalPrinterColumns[0].name: Required value",
            "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
        ]
    );
}

#[test]
fn broken_schemas_are_refused_in_the_words_of_kubernetes() {
    let at = "spec.validation.openAPIV3Schema";
    let field = "spec.validation.openAPIV3Schema.properties[x]";
    let list = |more: Value| {
        let mut schema = json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    // schema of the field x, errors below it
    let table: Vec<(Value, &[&str])> = vec![
        (json!({"type": "string"}), &[]),
        (json!({}), &[".type: Required value: must not be empty for specified object fields"]),
        (json!({"type": "array"}), &[".items: Required value: must be specified"]),
        (
            json!({"type": "array", "items": {}}),
            &[".items.type: Required value: must not be empty for specified array items"],
        ),
        (
            json!({"type": "text"}),
            &[
                ".type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ],
        ),
        (
            json!({"type": "string", "pattern": "("}),
            &[
                ".pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            &[
                ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ],
        ),
        (
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            &[
                ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            &[".anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            &[],
        ),
        (
            json!({"type": "integer", "default": "a"}),
            &[".default: Invalid value: \"string\":  in body must be of type integer: \"string\""],
        ),
        (
            json!({"type": "object", "default": {"a": 1}}),
            &[".default: Invalid value: {\"a\":1}: must not have unknown fields"],
        ),
        (
            json!({"type": "object", "default": {"a": "x"}, "properties": {"a": {"type": "integer"}}}),
            &[
                ".default.a: Invalid value: \"string\": a in body must be of type integer: \"string\"",
            ],
        ),
        (
            json!({"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1", "message": "small"}]}),
            &[".default: Invalid value: \"integer\": small"],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            &[
                ".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            &[
                ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ],
        ),
        (
            list(json!({"x-kubernetes-list-type": "map"})),
            &[
                ".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ],
        ),
        (
            list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})),
            &[
                ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"]})),
            &[
                ".x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties",
            ],
        ),
        (
            list(json!({"x-kubernetes-list-type": "bag"})),
            &[
                ".x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"",
            ],
        ),
        (
            list(json!({"x-kubernetes-list-type": "set"})),
            &[
                ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-map-type": "atomic"}),
            &[
                ".type: Invalid value: \"string\": must be object if x-kubernetes-map-type is specified",
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": " "}]}),
            &[".x-kubernetes-validations[0].rule: Required value: rule is not specified"],
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "reason": "X"}]}),
            &[
                ".x-kubernetes-validations[0].reason: Unsupported value: \"X\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": true}]}),
            &[
                ".x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}),
            &[
                ".items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[x]",
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "foo", "message": "m"}]}),
            &[
                ".x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"foo\",\"Message\":\"m\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^",
            ],
        ),
    ];
    for (schema, expected) in table {
        let errors = validate_crd(&crd(json!({"type": "object", "properties": {"x": schema}})));
        let expected: Vec<String> = expected.iter().map(|e| format!("{field}{e}")).collect();
        assert_eq!(texts(&errors), expected, "{schema}");
    }
    // schema of the root, errors below it
    let roots: Vec<(Value, &[&str])> = vec![
        (
            json!({"type": "string"}),
            &[".type: Invalid value: \"string\": must be object at the root"],
        ),
        (json!({}), &[".type: Required value: must not be empty at the root"]),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            &[".additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            &[
                ".properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}}}),
            &[],
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"y": {"minLength": 1}}}]}),
            &[
                ".properties[y]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[y]",
            ],
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "string", "default": "A"}}}),
            &[".properties[kind].default: Forbidden: must not be set in top-level kind"],
        ),
    ];
    for (schema, expected) in roots {
        let errors = validate_crd(&crd(schema.clone()));
        let expected: Vec<String> = expected.iter().map(|e| format!("{at}{e}")).collect();
        assert_eq!(texts(&errors), expected, "{schema}");
    }
}

#[test]
fn versions_that_differ_are_reported_each_at_its_place() {
    let mut crd = crd(json!({"type": "object"}));
    let other = json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"x": {}}}}});
    crd["spec"]["versions"].as_array_mut().unwrap().push(other);
    assert_eq!(
        texts(&validate_crd(&crd)),
        [
            "spec.versions[1].schema.openAPIV3Schema.properties[x].type: Required value: must not be empty for specified object fields"
        ]
    );
}

#[test]
fn selectable_fields_must_lead_to_scalars() {
    let mut crd = crd(
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}),
    );
    crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec"}, {"jsonPath": ".spec.b"}, {"jsonPath": ".spec.a"}]);
    assert_eq!(
        texts(&validate_crd(&crd)),
        [
            "spec.selectableFields[1].jsonPath: Invalid value: \".spec\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            "spec.selectableFields[2].jsonPath: Invalid value: \".spec.b\": is an invalid path: does not refer to a valid field",
            "spec.selectableFields[3].jsonPath: Duplicate value: \".spec.a\"",
        ]
    );
}

#[test]
fn groups_of_kubernetes_need_an_approval() {
    let mut crd = crd(json!({"type": "object"}));
    crd["spec"]["group"] = json!("x.k8s.io");
    crd["metadata"]["name"] = json!("as.x.k8s.io");
    assert_eq!(
        texts(&validate_crd(&crd)),
        [
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"
        ]
    );
    crd["metadata"]["annotations"] =
        json!({"api-approved.kubernetes.io": "https://example.com/pull/1"});
    assert!(validate_crd(&crd).is_empty());
}

#[test]
fn an_update_may_not_change_what_storage_depends_on() {
    let old = crd(json!({"type": "object"}));
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["group"] = json!("d.e");
    assert_eq!(
        texts(&validate_crd_update(&new, &old, true)),
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.group: Invalid value: \"d.e\": field is immutable"
        ]
    );
    new["spec"]["group"] = json!("b.c");
    assert!(validate_crd_update(&new, &old, false).is_empty());
}
