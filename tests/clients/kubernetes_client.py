"""The official Python client against a cluster with Muster: pods, custom objects, watches, patches, apply.

usage: kubernetes_client.py KUBECONFIG NAMESPACE MARK [logs]
MARK keeps pods on the nodes of a world in a real cluster, `-` says that there is none. `logs` says that pods' logs are served.
Prints a line for each thing that was checked, and DONE at the end.
"""

import sys
import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

kubeconfig, namespace, mark = sys.argv[1:4]
with_logs = "logs" in sys.argv[4:]
config.load_kube_config(config_file=kubeconfig)
core, custom = client.CoreV1Api(), client.CustomObjectsApi()
WORLD = "sandbox.muster.dev/world"


def ok(what):
    print("ok   ", what, flush=True)


def same(what, found, wanted):
    assert found == wanted, f"{what}: {found!r}, want {wanted!r}"
    ok(what)


def refused(what, status, reason, call):
    try:
        call()
    except ApiException as error:
        assert error.status == status and reason in str(error.body), f"{what}: {error}"
        return ok(what)
    raise AssertionError(f"{what}: not refused")


def until(what, look, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            ok(what)
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def place(spec):
    if mark != "-":
        spec["nodeSelector"] = {WORLD: mark}
        spec["tolerations"] = [{"key": WORLD, "value": mark, "effect": "NoSchedule"}]
    return spec


def pod(name, seconds):
    annotations = {"sandbox.muster.dev/run-seconds": seconds}
    limits = {"huawei.com/Ascend910": "1"}
    container = {"name": "main", "image": "any", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "client"}, "annotations": annotations},
        "spec": place({"restartPolicy": "Never", "containers": [container]}),
    }


# --- pods
version = client.VersionApi().get_code()
assert version.git_version.startswith("v1."), version
ok(f"the server is {version.git_version}")
before = core.list_namespaced_pod(namespace, label_selector="app=client")
same("there are no pods yet", before.items, [])
made = core.create_namespaced_pod(namespace, pod("one", "600"))
assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo, made.metadata
ok("a pod is created, with typed metadata")
phases = []
stream = watch.Watch()
since = before.metadata.resource_version
for event in stream.stream(
    core.list_namespaced_pod, namespace, label_selector="app=client", resource_version=since, timeout_seconds=60
):
    phases.append((event["type"], event["object"].status.phase))
    if phases[-1][1] == "Running":
        stream.stop()
assert phases[0] == ("ADDED", "Pending") and phases[-1] == ("MODIFIED", "Running"), phases
ok("a watch from a revision shows it from its creation until it runs")
found = core.read_namespaced_pod("one", namespace)
assert found.spec.node_name and found.status.pod_ip, found.status
same("its container is ready", [c.ready for c in found.status.container_statuses], [True])
refused("the same name again", 409, "AlreadyExists", lambda: core.create_namespaced_pod(namespace, pod("one", "1")))
refused("a pod that is not there", 404, "NotFound", lambda: core.read_namespaced_pod("none", namespace))
wrong = pod("wrong", "1")
wrong["spec"]["containers"] = []
refused("a pod without containers", 422, "spec.containers", lambda: core.create_namespaced_pod(namespace, wrong))

# --- patches: a dict is a strategic merge patch or a merge patch, a list is a JSON patch
found = core.patch_namespaced_pod("one", namespace, {"metadata": {"labels": {"colour": "red"}}})
same("a strategic merge patch adds a label", found.metadata.labels, {"app": "client", "colour": "red"})
change = [{"op": "replace", "path": "/metadata/labels/colour", "value": "blue"}]
found = core.patch_namespaced_pod("one", namespace, change)
same("a JSON patch replaces it", found.metadata.labels["colour"], "blue")
found.metadata.labels["colour"] = "green"
found.metadata.resource_version = made.metadata.resource_version
refused("an update of an old revision", 409, "Conflict", lambda: core.replace_namespaced_pod("one", namespace, found))
for name in ("two", "three"):
    core.create_namespaced_pod(namespace, pod(name, "600"))
page = core.list_namespaced_pod(namespace, label_selector="app=client", limit=2)
assert len(page.items) == 2 and page.metadata._continue, page.metadata
rest = core.list_namespaced_pod(namespace, label_selector="app=client", limit=2, _continue=page.metadata._continue)
same("a list comes in pages", sorted(p.metadata.name for p in page.items + rest.items), ["one", "three", "two"])
if with_logs:
    core.create_namespaced_pod(namespace, pod("short", "0.1"))
    until("a pod succeeds", lambda: core.read_namespaced_pod("short", namespace).status.phase == "Succeeded")
    same("its log is read", core.read_namespaced_pod_log("short", namespace).splitlines()[-1], "exit 0")
else:
    print("left out: logs, which the simulated nodes do not serve to a real API server")
core.delete_collection_namespaced_pod(namespace, label_selector="app=client", grace_period_seconds=0)
until("a collection is deleted", lambda: not core.list_namespaced_pod(namespace, label_selector="app=client").items)

# --- custom objects: a ModelServing, by the client for objects of any kind
KIND = ("workload.serving.volcano.sh", "v1alpha1", namespace, "modelservings")
template = {"spec": place({"containers": [{"name": "server", "image": "any"}]})}
role = {"name": "server", "replicas": 1, "workerReplicas": 0, "entryTemplate": template}
serving = {
    "apiVersion": "/".join(KIND[:2]),
    "kind": "ModelServing",
    "metadata": {"name": "client"},
    "spec": {"replicas": 1, "schedulerName": "default-scheduler", "template": {"roles": [role]}},
}
custom.create_namespaced_custom_object(*KIND, serving)
ok("a ModelServing is created")


def conditions(name):
    status = custom.get_namespaced_custom_object_status(*KIND, name).get("status", {})
    return {c["type"]: c["status"] for c in status.get("conditions", [])}


until("it is available", lambda: conditions("client").get("Available") == "True")
scaled = custom.patch_namespaced_custom_object(*KIND, "client", {"spec": {"replicas": 2}})
same("a merge patch changes it", scaled["spec"]["replicas"], 2)
until("its status follows", lambda: custom.get_namespaced_custom_object(*KIND, "client")["status"].get("availableReplicas") == 2)
same("scale is a subresource", custom.get_namespaced_custom_object_scale(*KIND, "client")["spec"]["replicas"], 2)
custom.patch_namespaced_custom_object_scale(*KIND, "client", {"spec": {"replicas": 1}})
until("it is scaled by it", lambda: custom.get_namespaced_custom_object(*KIND, "client")["status"].get("replicas") == 1)
bad = {"spec": {"replicas": "many"}}
refused("a wrong type", 422, "spec.replicas", lambda: custom.patch_namespaced_custom_object(*KIND, "client", bad))

# --- the dynamic client: discovery, apply, watch
kinds = dynamic.DynamicClient(client.ApiClient())
jobs = kinds.resources.get(api_version="trainer.kubeflow.org/v1alpha1", kind="TrainJob")
same("discovery knows TrainJobs", (jobs.name, jobs.namespaced), ("trainjobs", True))
maps = kinds.resources.get(api_version="v1", kind="ConfigMap")
meta = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": namespace}}
maps.server_side_apply(body={**meta, "data": {"a": "1"}}, namespace=namespace, field_manager="first")
refused(
    "apply of another's field", 409, "conflict",
    lambda: maps.server_side_apply(body={**meta, "data": {"a": "2"}}, namespace=namespace, field_manager="second"),
)
applied = maps.server_side_apply(
    body={**meta, "data": {"a": "2"}}, namespace=namespace, field_manager="second", force_conflicts=True
)
same("apply by force", applied.data.a, "2")

# --- what users do with files
utils.create_from_dict(client.ApiClient(), {**meta, "metadata": {"name": "from-file"}, "data": {"b": "3"}}, namespace=namespace)
same("create_from_dict", core.read_namespaced_config_map("from-file", namespace).data, {"b": "3"})
custom.delete_namespaced_custom_object(*KIND, "client")
until(
    "the serving and its pods are gone",
    lambda: not core.list_namespaced_pod(namespace, label_selector="modelserving.volcano.sh/name=client").items,
)
print("DONE")
