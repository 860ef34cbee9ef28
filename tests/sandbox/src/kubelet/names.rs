//! Every name that the simulated kubelet reads or writes by convention.

/// Seconds that the main containers run. Empty or absent: until the pod is deleted; a pod of a Job
/// runs [`JOB_SECONDS`].
pub const RUN_SECONDS: &str = "sandbox.muster.dev/run-seconds";
/// Exit code of the main containers, or of the one named by [`FAIL_CONTAINER`].
pub const EXIT_CODE: &str = "sandbox.muster.dev/exit-code";
/// The only container that ends with [`EXIT_CODE`] (1 when that is absent); may be an init container.
pub const FAIL_CONTAINER: &str = "sandbox.muster.dev/fail-container";
/// Seconds from the start of a container to its running, as an image pull takes.
pub const START_SECONDS: &str = "sandbox.muster.dev/start-seconds";
/// Seconds that a container needs to end after it was told to.
pub const STOP_SECONDS: &str = "sandbox.muster.dev/stop-seconds";
/// Seconds that a simulated `preStop` hook takes which runs or calls something.
pub const HOOK_SECONDS: u64 = 1;
/// "true": the containers run but never become ready.
pub const NOT_READY: &str = "sandbox.muster.dev/not-ready";
/// "true": the containers are processes on the host, where the options allow it.
pub const EXEC: &str = "sandbox.muster.dev/exec";

/// How long the containers of a Job's pod run unless told otherwise.
pub const JOB_SECONDS: u64 = 1;

/// Exit code of a container that ended because it was told to.
pub const EXIT_TERMINATED: i32 = 143;
/// Exit code of a container that was killed.
pub const EXIT_KILLED: i32 = 137;

/// Name under which the kubelet's writes are known.
pub const FIELD_MANAGER: &str = "kubelet";
/// Namespace of the node leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Seconds after which a node that renews no more counts as lost.
pub const LEASE_SECONDS: i64 = 40;

/// Environment of a process container: the directory that stands for its root file system.
pub const ENV_ROOTFS: &str = "SANDBOX_ROOTFS";
/// Exit code of a closure that panicked.
pub const EXIT_PANICKED: i32 = 134;
/// Exit code of a process that could not be started.
pub const EXIT_NOT_FOUND: i32 = 127;
