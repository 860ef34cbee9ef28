# shellcheck shell=bash disable=SC2154
# apply: client-side, server-side, diff.

first=$(config_map client a 1 b 2 | file client-1.yaml)
second=$(config_map client a 9 c 3 | file client-2.yaml)
check "apply creates" 0 'configmap/client created' k apply --filename "$first"
check "apply again changes nothing" 0 'configmap/client unchanged' k apply --filename "$first"
check "diff of the same exits 0" 0 '' k diff --filename "$first"
check "diff of a change exits 1 and shows it" 1 '^\+ +a: "9"' k diff --filename "$second"
check "apply with a change updates" 0 'configmap/client configured' k apply --filename "$second"
check "apply removed what the file no longer has" 0 '^\{"a":"9","c":"3"\}$' k get configmap client --output 'jsonpath={.data}'
check "apply keeps what others added" 0 'configmap/client patched' k patch configmap client --type merge --patch '{"data":{"other":"x"}}'
check "after one more apply" 0 'configmap/client (configured|unchanged)' k apply --filename "$second"
check "it is still there" 0 '^x$' value client other
check "apply --dry-run=server stores nothing" 0 'created \(server dry run\)' \
    k apply --dry-run=server --filename "$(config_map tried a 1 | file tried.yaml)"
check "as get confirms" 1 'NotFound' k get configmap tried

first=$(config_map server a 1 b 2 | file server-1.yaml)
second=$(config_map server a 9 | file server-2.yaml)
check "apply --server-side creates" 0 'configmap/server serverside-applied' k apply --server-side --filename "$first"
check "managedFields name the manager" 0 '^kubectl Apply$' \
    k get configmap server --show-managed-fields --output 'jsonpath={.metadata.managedFields[0].manager} {.metadata.managedFields[0].operation}'
revision=$(k get configmap server --output 'jsonpath={.metadata.resourceVersion}' || true)
check "apply --server-side again is accepted" 0 'configmap/server serverside-applied' k apply --server-side --filename "$first"
check "and writes nothing" 0 "^$revision\$" k get configmap server --output 'jsonpath={.metadata.resourceVersion}'
check "another manager meets a conflict" 1 'Apply failed with 1 conflict: conflict with "kubectl": \.data\.a$' \
    k apply --server-side --field-manager other --filename "$second"
check "it says how to go on" 1 'force-conflicts' k apply --server-side --field-manager other --filename "$second"
check "and the value stayed" 0 '^1$' value server a
check "with force it takes the field" 0 'serverside-applied' \
    k apply --server-side --field-manager other --force-conflicts --filename "$second"
check "the value is new" 0 '^9$' value server a
check "apply --server-side gives up what the file no longer has" 0 'serverside-applied' \
    k apply --server-side --filename "$(config_map server c 4 | file server-3.yaml)"
check "b is gone, a is the other manager's" 0 '^\{"a":"9","c":"4"\}$' k get configmap server --output 'jsonpath={.data}'
check "diff --server-side shows a change" 1 '^\+ +c: "5"' \
    k diff --server-side --filename "$(config_map server c 5 | file server-4.yaml)"

check "delete --filename removes what the file names" 0 'configmap "server" deleted' k delete --filename "$first"
check "delete by label removes the rest" 0 'configmap "client" deleted' k delete configmaps --selector app=test
