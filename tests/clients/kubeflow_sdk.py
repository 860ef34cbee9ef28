"""The Kubeflow SDK (PyPI: kubeflow) against a cluster with Muster and its shipped runtimes.

usage: kubeflow_sdk.py KUBECONFIG NAMESPACE PREFIX FOLDER [logs]
PREFIX is what the names of the runtimes begin with, `-` says nothing. FOLDER has a `torchrun` and is where functions and
this program leave each other files. `logs` says that pods' logs are served.
The annotation sandbox.muster.dev/exec makes simulated nodes run a container as a process, so that functions really run.
Prints a line for each thing that was checked, and DONE at the end.
"""

import logging
import os
import sys
import time

from kubeflow.trainer import (
    BuiltinTrainer,
    CustomTrainer,
    CustomTrainerContainer,
    HuggingFaceDatasetInitializer,
    HuggingFaceModelInitializer,
    Initializer,
    KubernetesBackendConfig,
    TorchTuneConfig,
    TrainerClient,
)
from kubeflow.trainer.options import (
    Annotations,
    JobSetSpecPatch,
    JobSetTemplatePatch,
    JobSpecPatch,
    JobTemplatePatch,
    Labels,
    PodTemplatePatch,
    ReplicatedJobPatch,
    RuntimePatch,
    TrainerArgs,
    TrainerCommand,
    TrainingRuntimeSpecPatch,
)

kubeconfig, namespace, prefix, folder = sys.argv[1:5]
with_logs = "logs" in sys.argv[5:]
prefix = "" if prefix == "-" else prefix
SHIPPED = {
    "torch-distributed": "torch",
    "torch-ascend-distributed": "torch",
    "deepspeed-distributed": "deepspeed",
    "mlx-distributed": "mlx",
    "jax-distributed": "jax",
    "xgboost-distributed": "xgboost",
    "torchtune-llama3.2-1b": "torchtune",
    "torchtune-llama3.2-3b": "torchtune",
    "torchtune-qwen2.5-1.5b": "torchtune",
}


class Complaints(logging.Handler):
    said = []

    def emit(self, record):
        self.said.append(record.getMessage())


logging.getLogger("kubeflow").addHandler(Complaints(logging.WARNING))


def ok(what):
    print("ok   ", what, flush=True)


def same(what, found, wanted):
    assert found == wanted, f"{what}: {found!r}, want {wanted!r}"
    ok(what)


def until(what, look, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            ok(what)
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def annotated(annotations, *jobs):
    pod = PodTemplatePatch(metadata={"annotations": annotations})
    patch = JobTemplatePatch(spec=JobSpecPatch(template=pod))
    patches = [ReplicatedJobPatch(name=job, template=patch) for job in jobs]
    template = JobSetTemplatePatch(spec=JobSetSpecPatch(replicated_jobs=patches))
    return RuntimePatch(training_runtime_spec=TrainingRuntimeSpecPatch(template=template))


PROCESS = annotated({"sandbox.muster.dev/exec": "true"}, "node")
PATH = {"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}

trainer = TrainerClient(KubernetesBackendConfig(namespace=namespace, config_file=kubeconfig))
same("the version of the control plane is found", Complaints.said, [])

# --- runtimes
listed = [r for r in trainer.list_runtimes() if r.kind.value == "ClusterTrainingRuntime" and r.name.startswith(prefix)]
ours = {r.name[len(prefix):]: r for r in listed}
same("the shipped runtimes are listed", {n: r.trainer.framework for n, r in ours.items()}, SHIPPED)
for name in SHIPPED:
    found = trainer.get_runtime(prefix + name)
    assert found.trainer.image and found.trainer.num_nodes == 1, found
ok("each of them is read")
torch = trainer.get_runtime(prefix + "torch-distributed")


# --- a function on two nodes
def work(gate, rate):
    import os
    import time

    rank, nodes = os.environ["PET_NODE_RANK"], os.environ["PET_NNODES"]
    print(f"rank {rank} of {nodes}, {os.environ['PET_NPROC_PER_NODE']} processes, rate {rate}")
    while not os.path.exists(gate):
        time.sleep(0.05)
    print(f"rank {rank} is done")


gate = os.path.join(folder, "gate")
name = trainer.train(
    runtime=torch,
    trainer=CustomTrainer(
        func=work, func_args={"gate": gate, "rate": 0.1}, num_nodes=2, resources_per_node={"gpu": 4}, env=PATH
    ),
    options=[PROCESS, Labels({"team": "a"}), Annotations({"example.com/why": "test"})],
)
job = trainer.wait_for_job_status(name, status={"Running"}, timeout=60, polling_interval=1)
same("a function runs on two nodes", sorted((s.name, s.status) for s in job.steps), [("node-0", "Running"), ("node-1", "Running")])
same("its devices are known", {(s.device, s.device_count) for s in job.steps}, {("gpu", "4")})
if with_logs:
    until("its log is read while it runs", lambda: list(trainer.get_job_logs(name)) == ["rank 0 of 2, auto processes, rate 0.1"])
    lines = trainer.get_job_logs(name, step="node-1", follow=True)
    same("a log is followed", next(lines), "rank 1 of 2, auto processes, rate 0.1")
open(gate, "w").close()
if with_logs:
    same("to its end", list(lines)[0], "rank 1 is done")
else:
    print("left out: logs, which the simulated nodes do not serve to a real API server")
job = trainer.wait_for_job_status(name, timeout=60, polling_interval=1)
same("it completes", (job.status, job.num_nodes, job.runtime.name), ("Complete", 2, torch.name))
reasons = {(e.involved_object_kind, e.reason) for e in trainer.get_job_events(name)}
assert ("Pod", "Scheduled") in reasons, reasons
ok("its events are listed")


# --- a function that fails
def broken():
    raise SystemExit(3)


once = trainer.get_runtime("once")
same("a runtime of the namespace is found", once.kind.value, "TrainingRuntime")
failing = trainer.train(runtime=once, trainer=CustomTrainer(func=broken, env=PATH))
try:
    trainer.wait_for_job_status(failing, timeout=60, polling_interval=1)
    raise AssertionError("a job whose function fails completes")
except RuntimeError as error:
    same("a function that fails", str(error), f"TrainJob {failing} is Failed")


# --- an image, with a command of its own
container = CustomTrainerContainer(image="example.com/train:1", num_nodes=1, env=PATH)
print_jax = "echo process $JAX_PROCESS_ID of $JAX_NUM_PROCESSES"
image = trainer.train(
    runtime=prefix + "jax-distributed",
    trainer=container,
    options=[PROCESS, TrainerCommand(["/bin/sh", "-c"]), TrainerArgs([print_jax])],
)
trainer.wait_for_job_status(image, timeout=60, polling_interval=1)
ok("an image with a command completes")
if with_logs:
    same("and finds its environment", list(trainer.get_job_logs(image))[0], "process 0 of 1")


# --- MPI: simulated containers, which run for a second
def mpi():
    print("never run here")


name_mpi = trainer.train(runtime=prefix + "deepspeed-distributed", trainer=CustomTrainer(func=mpi, num_nodes=2))
job = trainer.wait_for_job_status(name_mpi, timeout=60, polling_interval=1)
same("an MPI job completes; its launcher is the first node", sorted(s.name for s in job.steps), ["node-0", "node-1"])

# --- a trainer that the runtime brings along
made = {name, failing, image, name_mpi}
if prefix:
    # The original knows the model by the runtime's name, and these names are longer.
    print("left out: a fine-tuning job, whose runtime must have its shipped name")
else:
    tune = trainer.train(
        runtime=prefix + "torchtune-qwen2.5-1.5b",
        initializer=Initializer(
            dataset=HuggingFaceDatasetInitializer(storage_uri="hf://tatsu-lab/alpaca"),
            model=HuggingFaceModelInitializer(storage_uri="hf://Qwen/Qwen2.5-1.5B-Instruct"),
        ),
        trainer=BuiltinTrainer(config=TorchTuneConfig(epochs=1, batch_size=2)),
    )
    same("a fine-tuning job is taken", trainer.get_job(tune).runtime.trainer.framework, "torchtune")
    # Its volume needs a JobSet of 0.11 or newer, which neither the sandbox nor hack/cluster has: what the coordinator says about it
    # must reach the user.
    failed = ("TrainJob", "TrainJobResourcesCreationFailed")
    until("and what is wrong with it is told", lambda: failed in {(e.involved_object_kind, e.reason) for e in trainer.get_job_events(tune)})
    made.add(tune)

# --- listing and deleting
same("all jobs are listed", {j.name for j in trainer.list_jobs()}, made)
same("or those of a runtime", {j.name for j in trainer.list_jobs(runtime=torch)}, {name})
for one in made:
    trainer.delete_job(one)
until("they are deleted", lambda: not trainer.list_jobs())
try:
    trainer.get_job(name)
    raise AssertionError("a deleted job is found")
except RuntimeError:
    ok("a deleted job is not found")
try:
    trainer.train(runtime="nothing", trainer=container)
    raise AssertionError("a runtime that is not there is taken")
except RuntimeError:
    ok("a runtime that is not there is refused")
print("DONE")
