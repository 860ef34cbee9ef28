# shellcheck shell=bash disable=SC2154
# Discovery, create, get, label, patch, edit, delete.

check "version names the server" 0 'Server Version: v1\.[0-9]+' k version
check "api-resources lists configmaps with their short name" 0 '^configmaps +cm +v1 +true +ConfigMap' k api-resources
check "api-resources takes a group" 0 '^jobs +batch/v1 +true +Job' k api-resources --api-group batch
check "api-versions lists batch/v1" 0 '^batch/v1$' k api-versions
check "an unknown resource type is an error" 1 "the server doesn't have a resource type" k get gizmos

check "create makes a namespace" 0 "namespace/$namespace created" k create namespace "$namespace"
check "create makes a config map" 0 'configmap/one created' k create configmap one --from-literal color=red
check "create refuses a second one of that name" 1 'configmaps "one" already exists' k create configmap one --from-literal color=red
check "create --dry-run=server answers" 0 'configmap/tried created \(server dry run\)' \
    k create configmap tried --from-literal a=b --dry-run=server
check "and stores nothing" 1 'NotFound' k get configmap tried
check "create takes generateName" 0 'configmap/made-[a-z0-9]{5} created' \
    k create --filename "$(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}\n' | file generated.yaml)"
check "a misspelt field is refused" 1 'unknown field "dada"' \
    k create --filename "$(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndada: {}\n' | file misspelt.yaml)"
check "an invalid object is refused with its field" 1 'metadata.name: Invalid value' \
    k create configmap 'Not_A_Name'

check "get lists" 0 '^one ' k get configmaps
check "get takes a short name" 0 '^one ' k get cm one
check "get of a missing object fails" 1 'Error from server \(NotFound\): configmaps "none" not found' k get configmap none
check "get -o name" 0 '^configmap/one$' k get configmaps --output name
check "get -o wide" 0 '^NAME .*AGE' k get configmaps --output wide
check "get -o yaml" 0 '^  color: red$' k get configmap one --output yaml
check "get -o json" 0 '"color": "red"' k get configmap one --output json
check "get -o jsonpath" 0 '^red$' k get configmap one --output 'jsonpath={.data.color}'
check "get -o custom-columns" 0 '^one +red$' k get configmap one --output custom-columns=N:.metadata.name,C:.data.color
check "get -o go-template" 0 '^red!$' k get configmap one --output 'go-template={{.data.color}}!'
check "get --raw" 0 '"kind":"ConfigMap"' k get --raw "/api/v1/namespaces/$namespace/configmaps/one"
check "get of all namespaces has it" 0 "^$namespace +one " k get configmaps --all-namespaces
check "get takes several kinds" 0 '^configmap/one$' k get configmaps,secrets --output name
check "describe shows labels and data" 0 '^color:$' k describe configmap one

check "label adds" 0 'configmap/one labeled' k label configmap one tier=back
check "label does not overwrite unasked" 1 "already has a value" k label configmap one tier=front
check "label overwrites when asked" 0 'configmap/one labeled' k label configmap one tier=front --overwrite
check "get selects by label" 0 '^configmap/one$' k get configmaps --selector tier=front --output name
check_absent "a selector that does not match leaves it out" 'configmap/one' k get configmaps --selector 'tier!=front' --output name
check "get selects by field" 0 '^configmap/one$' k get configmaps --field-selector metadata.name=one --output name
check "label removes" 0 'configmap/one unlabeled' k label configmap one tier-
check "annotate adds" 0 'configmap/one annotated' k annotate configmap one note=here
check "and it is there" 0 '^here$' k get configmap one --output 'jsonpath={.metadata.annotations.note}'

check "patch merges" 0 'configmap/one patched' k patch configmap one --type merge --patch '{"data":{"size":"1"}}'
check "patch that changes nothing says so" 0 'patched \(no change\)' k patch configmap one --type merge --patch '{"data":{"size":"1"}}'
check "patch takes JSON operations" 0 'configmap/one patched' \
    k patch configmap one --type json --patch '[{"op":"replace","path":"/data/size","value":"2"}]'
check "a JSON patch test that fails is refused" 1 'The request is invalid: the server rejected our request' \
    k patch configmap one --type json --patch '[{"op":"test","path":"/data/size","value":"9"}]'
check "the patched value is there" 0 '^2$' value one size
edit_with() { KUBE_EDITOR=$1 k edit "${@:2}"; }
check "edit writes what the editor left" 0 'configmap/one edited' edit_with 'sed -i s/red/green/' configmap one
check "the edited value is there" 0 '^green$' value one color
check "edit without a change writes nothing" 0 'Edit cancelled, no changes made' edit_with true configmap one

k get configmap one --output json >"$work/old.json"
k patch configmap one --type merge --patch '{"data":{"size":"3"}}' >/dev/null
check "replace of a stale object is a conflict" 1 'the object has been modified' k replace --filename "$work/old.json"

check "delete removes" 0 'configmap "one" deleted' k delete configmap one
check "and it is gone" 1 'NotFound' k get configmap one
check "delete of a missing object fails" 1 'NotFound' k delete configmap one
check "unless it may be missing" 0 '' k delete configmap one --ignore-not-found
