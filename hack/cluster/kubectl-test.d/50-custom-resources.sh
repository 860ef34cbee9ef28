# shellcheck shell=bash disable=SC2154
# A CRD of our own: discovery, validation, status, scale, explain.

check "a CRD is created" 0 "gadgets.$group serverside-applied" k apply --server-side --filename "$(
    cat <<CRD | file crd.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.$group}
spec:
  group: $group
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gad$random]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: what the gadget should be
            properties:
              replicas: {type: integer, minimum: 0, default: 1}
              color: {type: string, enum: [red, green]}
            x-kubernetes-validations:
            - {rule: "self.replicas < 10", message: too many gadgets}
          status:
            type: object
            properties:
              replicas: {type: integer}
CRD
)"
# kubectl wait cannot wait for the first condition of a CRD: it stops at "conditions: null".
listed() {
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        ! k get "gadgets.$group" || return 0
        sleep 0.2
    done
    return 1
}
check "its resources are served" 0 '' listed
check "it is established then" 0 'condition met' k wait --for condition=Established "crd/gadgets.$group" --timeout 30s
check "api-resources lists it" 0 "^gadgets +gad$random +$group/v1 +true +Gadget" k api-resources --api-group "$group"

gadget() { printf 'apiVersion: %s/v1\nkind: Gadget\nmetadata: {name: %s}\nspec: %s\n' "$group" "$1" "$2"; }
check "apply creates one" 0 'created' k apply --filename "$(gadget one '{color: red}' | file gadget.yaml)"
check "the default is filled in" 0 '^1$' k get "gadgets.$group" one --output 'jsonpath={.spec.replicas}'
check "a short name finds it" 0 '^one ' k get "gad$random"
check "an enum is enforced" 1 'spec.color: Unsupported value: "blue"' k apply --filename "$(gadget two '{color: blue}' | file blue.yaml)"
check "a type is enforced" 1 'spec.replicas: Invalid value: "string"' \
    k patch "gadgets.$group" one --type merge --patch '{"spec":{"replicas":"many"}}'
check "a rule is enforced" 1 'too many gadgets' k patch "gadgets.$group" one --type merge --patch '{"spec":{"replicas":11}}'
check "an unknown field is refused" 1 'unknown field "spec.weight"' k apply --filename "$(gadget two '{weight: 1}' | file weight.yaml)"
check "scale sets the replicas" 0 'scaled' k scale "gadgets.$group/one" --replicas 4
check "and they are set" 0 '^4$' k get "gadgets.$group" one --output 'jsonpath={.spec.replicas}'
check "scale minds what it expects" 1 'Expected replicas to be 7, was 4' \
    k scale "gadgets.$group/one" --current-replicas 7 --replicas 5
check "status is written through its subresource" 0 'patched' \
    k patch "gadgets.$group" one --subresource status --type merge --patch '{"status":{"replicas":4}}'
check "and only there" 0 'patched \(no change\)' \
    k patch "gadgets.$group" one --type merge --patch '{"status":{"replicas":5}}'
check "describe shows it" 0 '^  Replicas: +4' k describe "gadgets.$group" one

check "explain describes a custom field" 0 'FIELD: color' k explain "gadgets.spec.color" --api-version "$group/v1"
if k get --raw /openapi/v3/api/v1 2>/dev/null | grep -q '"containers"'; then
    check "explain describes a built-in field" 0 'FIELD: containers' k explain pods.spec.containers
    check "explain refuses an unknown field" 1 'field "nothing" does not exist' k explain pods.spec.nothing
else
    printf 'left out: explain of built-in fields (the server does not describe them in OpenAPI)\n'
fi

check "delete removes the CRD and its objects" 0 'deleted' k delete crd "gadgets.$group" --timeout 50s
check "delete removes the namespace" 0 "namespace \"$namespace\" deleted" k delete namespace "$namespace" --timeout 50s
