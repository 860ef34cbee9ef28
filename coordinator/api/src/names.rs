//! Names of the API: groups, kinds, labels, annotations, finalizers, field managers.

/// The group of TrainJobs and their runtimes.
pub const GROUP: &str = "trainer.kubeflow.org";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// Group and version.
pub const API_VERSION: &str = "trainer.kubeflow.org/v1alpha1";

/// A job.
pub const TRAIN_JOB: &str = "TrainJob";
/// A runtime of one namespace.
pub const TRAINING_RUNTIME: &str = "TrainingRuntime";
/// A runtime of all namespaces.
pub const CLUSTER_TRAINING_RUNTIME: &str = "ClusterTrainingRuntime";

/// Who works on a TrainJob that does not say otherwise.
pub const CONTROLLER: &str = "trainer.kubeflow.org/trainjob-controller";
/// Who does in a cluster of clusters.
pub const MULTI_KUEUE: &str = "kueue.x-k8s.io/multikueue";

/// Label of a Job template: which step of a TrainJob it is.
pub const ANCESTOR: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
/// The step that trains.
pub const TRAINER: &str = "trainer";
/// The step, job and container that fetches data.
pub const DATASET_INITIALIZER: &str = "dataset-initializer";
/// The step, job and container that fetches a model.
pub const MODEL_INITIALIZER: &str = "model-initializer";
/// The container that trains, and the job of nodes.
pub const NODE: &str = "node";
/// The job that starts the others (MPI).
pub const LAUNCHER: &str = "launcher";
/// The mount that initializers share with the trainer.
pub const INITIALIZER: &str = "initializer";

/// Label of a ClusterTrainingRuntime: whether it is still cared for.
pub const SUPPORT: &str = "trainer.kubeflow.org/support";
/// It is not.
pub const DEPRECATED: &str = "deprecated";
/// Label of a runtime: what SDKs take it for.
pub const FRAMEWORK: &str = "trainer.kubeflow.org/framework";
/// Finalizer of a runtime that jobs use.
pub const RESOURCE_IN_USE: &str = "trainer.kubeflow.org/resource-in-use";
/// Who owns the fields of what is made for a TrainJob.
pub const FIELD_MANAGER: &str = "trainer";

/// The port on which the processes of a job meet.
pub const PORT: i32 = 29500;

/// Group of JobSets.
pub const JOB_SET_GROUP: &str = "jobset.x-k8s.io";
/// Group and version of JobSets.
pub const JOB_SET_API: &str = "jobset.x-k8s.io/v1alpha2";
/// Group of the scheduler plugins' PodGroups.
pub const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io";
/// Group and version of them.
pub const COSCHEDULING_API: &str = "scheduling.x-k8s.io/v1alpha1";
/// Group of Volcano's PodGroups.
pub const VOLCANO_GROUP: &str = "scheduling.volcano.sh";
/// Group and version of them.
pub const VOLCANO_API: &str = "scheduling.volcano.sh/v1beta1";
/// Group of KAI's PodGroups.
pub const KAI_GROUP: &str = "scheduling.run.ai";
/// Group and version of them.
pub const KAI_API: &str = "scheduling.run.ai/v2alpha2";
