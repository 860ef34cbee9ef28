# shellcheck shell=bash disable=SC2154
# Our definitions: discovery, explain, columns, apply, diff. No coordinator is needed, and none is disturbed: nothing here
# asks for devices, and what is suspended stays so.

crds=$here/../../deploy/crds
ours=$work/ours
k apply --server-side --dry-run=server --filename "$crds" --output name 2>/dev/null | sort >"$ours" || true
before=$(k get crds --output name 2>/dev/null | sort || true)
check "our definitions are applied" 0 'trainjobs.trainer.kubeflow.org serverside-applied' \
    k apply --server-side --force-conflicts --filename "$crds"
# settle KIND: waits until objects of the kind are served.
settle() {
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        ! k get "$1" --all-namespaces >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    return 1
}
for kind in trainjobs.trainer.kubeflow.org clustertrainingruntimes.trainer.kubeflow.org dijobs.diengine.opendilab.org \
    modelservings.workload.serving.volcano.sh queues.scheduling.run.ai topologies.kai.scheduler; do
    check "$kind are served" 0 '' settle "$kind"
done
check "our definitions are the same when applied again" 0 '' k diff --server-side --force-conflicts --filename "$crds"
check "api-resources lists TrainJobs" 0 '^trainjobs +trainer.kubeflow.org/v1alpha1 +true +TrainJob' \
    k api-resources --api-group trainer.kubeflow.org
check "explain describes a field" 0 'FIELD: numNodes <integer>' k explain trainjobs.spec.trainer.numNodes
check "explain says what it means" 0 'How many nodes' k explain trainjobs.spec.trainer.numNodes
check "explain goes by version" 0 'FIELD: schedulerName' k explain modelservings.spec.schedulerName --api-version workload.serving.volcano.sh/v1alpha1
check "explain refuses a field that is not there" 1 'field "nothing" does not exist' k explain dijobs.spec.nothing

# A name of its own, so that nobody else's is touched; a coordinator of this cluster would refuse a runtime that is not there.
check "a runtime is created" 0 'created' k apply --filename "$(
    cat <<YAML | file runtime.yaml
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: kubectl-test, namespace: $namespace, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {restartPolicy: Never, containers: [{name: node, image: any}]}}}
YAML
)"
train_job() { # NODES
    cat <<YAML
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: kubectl-test, namespace: $namespace}
spec:
  suspend: true
  runtimeRef: {name: kubectl-test, kind: TrainingRuntime}
  trainer: {numNodes: $1, command: [train]}
YAML
}
taken() {
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        ! k apply --filename "$1" || return 0
        sleep 0.2
    done
    return 1
}
check "a TrainJob is created" 0 'created' taken "$(train_job 2 | file trainjob.yaml)"
check "defaults are filled in" 0 '^trainer.kubeflow.org/trainjob-controller$' \
    k get trainjob kubectl-test --output 'jsonpath={.spec.managedBy}'
check "diff finds nothing" 0 '' k diff --filename "$work/trainjob.yaml"
check "diff finds a change" 1 '^\+ +example: a' k diff --filename "$(
    train_job 2 | sed "s/namespace: $namespace}/namespace: $namespace, labels: {example: a}}/" | file changed.yaml
)"
check "a rule refuses what must not change" 1 'spec' k apply --filename "$(train_job 3 | sed 's/suspend: true/suspend: false/' | file three.yaml)"
check "an unknown field is refused" 1 'unknown field "spec.trainer.nodes"' \
    k apply --filename "$(train_job 2 | sed 's/numNodes: 2/nodes: 2/; s/name: kubectl-test, namespace/name: other, namespace/' | file unknown.yaml)"
check "the last condition is the state" 0 'patched' k patch trainjob kubectl-test --subresource status --type merge --patch \
    '{"status":{"conditions":[{"type":"Suspended","status":"False","reason":"Resumed","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Complete","status":"True","reason":"Done","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}'
check "get has the columns" 0 '^NAME +STATE +AGE$' k get trainjobs
check "get shows the state" 0 '^kubectl-test +(Complete|Suspended) +[0-9]+' k get trainjobs
check "wait sees a condition" 0 'condition met' k wait --for condition=Complete trainjob/kubectl-test --timeout 10s

queue=kubectl-test-$random
check "a queue is created" 0 'created' k apply --filename "$(
    cat <<YAML | file queue.yaml
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: $queue}
spec:
  displayName: a test
  resources: {gpu: {quota: 1, limit: 1, overQuotaWeight: 1}}
YAML
)"
check "get shows its columns" 0 "^$queue .*a test" k get queues.scheduling.run.ai "$queue"
check "the queue is deleted" 0 'deleted' k delete queues.scheduling.run.ai "$queue"

check "the TrainJob is deleted" 0 'deleted' k delete trainjob kubectl-test --timeout 50s
k patch trainingruntime kubectl-test --type merge --patch '{"metadata":{"finalizers":null}}' >/dev/null 2>&1 || true
check "the runtime is deleted" 0 'deleted' k delete trainingruntime kubectl-test --timeout 50s
# What was there before stays; what this test brought goes.
for kind in $(comm -13 <(printf '%s\n' "$before") "$ours"); do
    k delete "$kind" --timeout 30s >/dev/null 2>&1 || true
done
