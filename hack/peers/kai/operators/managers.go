package main

import (
	"context"

	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	kubeflowcontrollers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	kubeflowwebhooks "github.com/kubeflow/training-operator/pkg/webhooks"
	rayconfig "github.com/ray-project/kuberay/ray-operator/apis/config/v1alpha1"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"
	lwscontrollers "sigs.k8s.io/lws/pkg/controllers"
	lwswebhooks "sigs.k8s.io/lws/pkg/webhooks"
)

// schemeOf knows Kubernetes' own kinds and these.
func schemeOf(add ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, one := range append(add, kubernetes.AddToScheme) {
		if err := one(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// trainingOperator is Kubeflow's: PyTorchJobs, TFJobs, XGBoostJobs, JAXJobs, PaddleJobs, MPIJobs v1.
func trainingOperator(ctx context.Context, manifest string) error {
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	config.Config.MPIKubectlDeliveryImage = config.MPIKubectlDeliveryImageDefault
	scheme, err := schemeOf(kubeflow.AddToScheme)
	if err != nil {
		return err
	}
	manager, hooks, err := newManager(scheme)
	if err != nil {
		return err
	}
	for kind, setUp := range kubeflowcontrollers.SupportedSchemeReconciler {
		if err := setUp(manager, common.GenNonGangSchedulerSetupFunc(), 1); err != nil {
			return err
		}
		if err := kubeflowwebhooks.SupportedSchemeWebhook[kind](manager); err != nil {
			return err
		}
	}
	if err := hooks.install(manager, "training-operator", manifest); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// kubeRay has no webhooks by default.
func kubeRay(ctx context.Context, _ string) error {
	scheme, err := schemeOf(rayv1.AddToScheme)
	if err != nil {
		return err
	}
	manager, _, err := newManager(scheme)
	if err != nil {
		return err
	}
	config := rayconfig.Configuration{ReconcileConcurrency: 1}
	clusters := ray.NewReconciler(ctx, manager, ray.RayClusterReconcilerOptions{}, config)
	if err := clusters.SetupWithManager(manager, 1); err != nil {
		return err
	}
	jobs := ray.NewRayJobReconciler(ctx, manager, ray.RayJobReconcilerOptions{}, config)
	if err := jobs.SetupWithManager(manager, 1); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// leaderWorkerSet needs its webhooks: they name the groups of its pods.
func leaderWorkerSet(ctx context.Context, manifest string) error {
	scheme, err := schemeOf(lwsv1.AddToScheme)
	if err != nil {
		return err
	}
	manager, hooks, err := newManager(scheme)
	if err != nil {
		return err
	}
	if err := lwscontrollers.SetupIndexes(manager.GetFieldIndexer()); err != nil {
		return err
	}
	recorder := manager.GetEventRecorderFor("leaderworkerset")
	sets := lwscontrollers.NewLeaderWorkerSetReconciler(manager.GetClient(), scheme, recorder)
	if err := sets.SetupWithManager(manager); err != nil {
		return err
	}
	pods := lwscontrollers.NewPodReconciler(manager.GetClient(), scheme, recorder, nil)
	if err := pods.SetupWithManager(manager); err != nil {
		return err
	}
	if err := lwswebhooks.SetupLeaderWorkerSetWebhook(manager); err != nil {
		return err
	}
	if err := lwswebhooks.NewPodWebhook(nil).Setup(manager); err != nil {
		return err
	}
	if err := hooks.install(manager, "lws", manifest); err != nil {
		return err
	}
	return manager.Start(ctx)
}
