// Package framework takes the place of the package of the same name in Kubeflow Trainer's integration suites.
//
// The original starts an API server and Trainer's own manager for each container of specs. Here both are there already: KUBECONFIG says
// where. What is kept is that each container of specs begins with a cluster without objects of the containers before it.
package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	coscheduling "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
)

// Framework is one container of specs at work.
type Framework struct {
	cluster client.Client
	cancel  context.CancelFunc
}

// Init finds the cluster.
func (f *Framework) Init() *rest.Config {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), "KUBECONFIG must name a cluster in which Muster runs")
	cfg.QPS, cfg.Burst = 200, 400
	return cfg
}

// RunManager gives the specs their client. Webhooks and, where they are wanted, controllers are Muster's and run already.
func (f *Framework) RunManager(cfg *rest.Config, _ bool) (context.Context, client.Client) {
	for _, add := range []func() error{
		func() error { return trainer.AddToScheme(scheme.Scheme) },
		func() error { return jobset.AddToScheme(scheme.Scheme) },
		func() error { return coscheduling.AddToScheme(scheme.Scheme) },
		func() error { return volcano.AddToScheme(scheme.Scheme) },
	} {
		gomega.ExpectWithOffset(1, add()).To(gomega.Succeed())
	}
	cluster, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	f.cluster = cluster
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	return ctx, cluster
}

// Teardown removes what the specs left: their own cluster would end here.
func (f *Framework) Teardown() {
	defer f.cancel()
	ginkgo.By("removing what the specs left behind")
	gomega.Eventually(f.sweep, 20*time.Second, 250*time.Millisecond).Should(gomega.Succeed())
}

func (f *Framework) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var problems []error
	var namespaces corev1.NamespaceList
	problems = append(problems, f.cluster.List(ctx, &namespaces))
	for _, namespace := range namespaces.Items {
		within := client.InNamespace(namespace.Name)
		for _, kind := range []client.Object{&trainer.TrainJob{}, &trainer.TrainingRuntime{}, &jobset.JobSet{}} {
			problems = append(problems, f.cluster.DeleteAllOf(ctx, kind, within))
		}
	}
	problems = append(problems, f.cluster.DeleteAllOf(ctx, &trainer.ClusterTrainingRuntime{}))
	for _, list := range []client.ObjectList{
		&trainer.TrainJobList{}, &trainer.TrainingRuntimeList{}, &trainer.ClusterTrainingRuntimeList{},
	} {
		problems = append(problems, f.cluster.List(ctx, list, client.Limit(1)), empty(list))
	}
	return errors.Join(problems...)
}

func empty(list client.ObjectList) error {
	left := 0
	switch list := list.(type) {
	case *trainer.TrainJobList:
		left = len(list.Items)
	case *trainer.TrainingRuntimeList:
		left = len(list.Items)
	case *trainer.ClusterTrainingRuntimeList:
		left = len(list.Items)
	}
	if left > 0 {
		return fmt.Errorf("%T: objects are left", list)
	}
	return nil
}
