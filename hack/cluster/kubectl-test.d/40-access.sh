# shellcheck shell=bash disable=SC2154
# Who may do what: auth can-i, --as, create token.

reader=system:serviceaccount:$namespace:reader
check "can-i says yes to the caller" 0 '^yes$' k auth can-i create pods
check "a service account is created" 0 'serviceaccount/reader created' k create serviceaccount reader
check "can-i says no for an account without a role" 1 '^no$' k auth can-i get configmaps --as "$reader"
check "a role is created" 0 'role.rbac.authorization.k8s.io/reader created' \
    k create role reader --verb get,list --resource configmaps
check "and bound" 0 'rolebinding.rbac.authorization.k8s.io/reader created' \
    k create rolebinding reader --role reader --serviceaccount "$namespace:reader"
# The authorizer follows the role objects a moment later.
can_read() {
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        ! k auth can-i get configmaps --as "$reader" || return 0
        sleep 0.2
    done
    return 1
}
check "can-i says yes after it" 0 '^yes$' can_read
check "can-i says no to another verb" 1 '^no$' k auth can-i delete configmaps --as "$reader"
check "can-i says no to another resource" 1 '^no$' k auth can-i get secrets --as "$reader"
check "can-i says no in another namespace" 1 '^no$' k auth can-i get configmaps --as "$reader" --namespace kube-system
check "can-i --list names the role's resources" 0 '^configmaps .*\[get list\]' k auth can-i --list --as "$reader"

check "create token gives a signed token" 0 '^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$' \
    k create token reader --duration 10m
token=$(k create token reader --duration 10m || true)
k config view --raw --minify --flatten >"$work/reader.kubeconfig"
as_reader() { KUBECONFIG=$work/reader.kubeconfig HOME=$work timeout 60 "$KUBECTL" --cache-dir "$work/cache" --namespace "$namespace" "$@"; }
as_reader config set-credentials reader --token "$token" >/dev/null
as_reader config set-context --current --user reader >/dev/null
check "the token is its account" 0 "^$reader\$" as_reader auth whoami --output 'jsonpath={.status.userInfo.username}'
check "the token may do what the role says" 0 '^yes$' as_reader auth can-i list configmaps
check "and nothing else" 1 '^no$' as_reader auth can-i create configmaps
