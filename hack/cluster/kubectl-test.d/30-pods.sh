# shellcheck shell=bash disable=SC2154
# Pods, status, watch, wait, events, logs. The pod names a scheduler that does not exist: it stays Pending.

pod() {
    cat <<POD
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {app: waiting}}
spec:
  schedulerName: nobody
  containers:
  - {name: main, image: "example.com/main:1"}
  - {name: side, image: "example.com/side:1"}
POD
}

# has FILE PATTERN: waits up to 30 s for a line.
has() {
    local tries
    for ((tries = 0; tries < 150; tries++)); do
        ! grep -qE -- "$2" "$1" || return 0
        sleep 0.2
    done
    cat "$1"
    return 1
}

check "the namespace gets its default service account" 0 '' \
    k wait --for create serviceaccount/default --timeout 30s

HOME=$work KUBECONFIG=$work/kubeconfig "$KUBECTL" --cache-dir "$work/cache" --namespace "$namespace" \
    get pods --watch --output-watch-events \
    --output 'jsonpath={.type} {.object.metadata.name} {.object.metadata.labels.step}{"\n"}' \
    >"$work/watch" 2>&1 &
watcher=$!
check "a pod is created" 0 'pod/waiter created' k apply --filename "$(pod waiter | file pod.yaml)"
check "get --watch shows the new pod" 0 '' has "$work/watch" '^ADDED waiter'
check "a strategic patch finds the container by name" 0 'pod/waiter patched' \
    k patch pod waiter --patch '{"spec":{"containers":[{"name":"side","image":"example.com/side:2"}]}}'
check "and leaves the other alone" 0 '^example.com/main:1 example.com/side:2$' \
    k get pod waiter --output 'jsonpath={.spec.containers[*].image}'
check "what may not change is refused" 1 'Forbidden: pod updates may not change fields' \
    k patch pod waiter --patch '{"spec":{"hostNetwork":true}}'
k label pod waiter step=two >/dev/null
check "get --watch shows the change" 0 '' has "$work/watch" '^MODIFIED waiter two$'
check "the pod is Pending" 0 '^Pending$' k get pod waiter --output 'jsonpath={.status.phase}'
check "wait gives up in time" 1 'timed out waiting for the condition on pods/waiter' \
    k wait --for condition=Ready pod/waiter --timeout 1s

k wait --for condition=Ready pod/waiter --timeout 30s >"$work/wait" 2>&1 &
waiting=$!
check "patch --subresource status writes status" 0 'pod/waiter patched' \
    k patch pod waiter --subresource status --patch '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
check "wait --for condition returns" 0 '' wait "$waiting"
check "and says so" 0 'pod/waiter condition met' cat "$work/wait"
check "wait --for jsonpath" 0 'pod/waiter condition met' \
    k wait --for 'jsonpath={.status.phase}=Pending' pod/waiter --timeout 30s

uid=$(k get pod waiter --output 'jsonpath={.metadata.uid}' || true)
check "an event is created" 0 'event/waiter.1 created' k create --filename "$(
    cat <<EVENT | file event.yaml
apiVersion: v1
kind: Event
metadata: {name: waiter.1}
involvedObject: {apiVersion: v1, kind: Pod, name: waiter, namespace: $namespace, uid: "$uid"}
type: Warning
reason: Tested
message: the event is seen
source: {component: kubectl-test}
firstTimestamp: "$(date -u +%FT%TZ)"
lastTimestamp: "$(date -u +%FT%TZ)"
count: 1
EVENT
)"
check "get events shows it" 0 'Tested +pod/waiter +the event is seen' k get events
check "events shows it for its pod" 0 'Warning +Tested +Pod/waiter +the event is seen' k events --for pod/waiter
check "events.k8s.io has it, too" 0 '^the event is seen$' \
    k get events.events.k8s.io waiter.1 --output 'jsonpath={.note}'
check "describe shows the containers" 0 '^    Image: +example.com/side:2' k describe pod waiter
check "describe shows the event" 0 'Warning +Tested .*kubectl-test +the event is seen' k describe pod waiter

check "logs of a pod with two containers takes the first" 0 'Defaulted container "main" out of: main, side' k logs waiter
check "logs of an unknown container fails" 1 'container nosuch is not valid for pod waiter' k logs waiter --container nosuch
check "logs of a missing pod fails" 1 'NotFound' k logs nobody

check "delete removes the pod" 0 'pod "waiter" deleted' k delete pod waiter --timeout 30s
check "get --watch shows the deletion" 0 '' has "$work/watch" '^DELETED waiter two$'
kill "$watcher" 2>/dev/null || true
wait "$watcher" 2>/dev/null || true
watcher=
check "wait --for delete of what is gone returns" 0 '' k wait --for delete pod/waiter --timeout 30s

if [[ $nodes == yes ]]; then
    check "a pod for the default scheduler is created" 0 'pod/runner created' k create --filename "$(
        cat <<'POD' | file runner.yaml
apiVersion: v1
kind: Pod
metadata: {name: runner, annotations: {sandbox.muster.dev/run-seconds: "3"}}
spec:
  restartPolicy: Never
  tolerations: [{operator: Exists}]
  containers: [{name: main, image: "example.com/main:1", command: [echo, hello]}]
POD
    )"
    check "it runs" 0 'pod/runner condition met' \
        k wait --for 'jsonpath={.status.containerStatuses[0].state}' pod/runner --timeout 50s
    check "it has a node" 0 '^node/[a-z0-9.-]+$' \
        k get node "$(k get pod runner --output 'jsonpath={.spec.nodeName}' || true)" --output name
    check "logs shows what it printed" 0 '.' k logs runner
    check "logs --tail shows the last line" 0 '.' k logs runner --container main --tail 1
    check "logs --follow ends with the container" 0 '.' k logs --follow runner
else
    printf 'left out: logs of a running pod (no --with-nodes)\n'
fi
