// Kubeflow's mpi-operator beside muster-world: its own controller, without leases and a port for probes. It is a module of its
// own, since it does not compile with the client-go that KAI names.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	clientset "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	"github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	"github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	// Events are about its kinds, too.
	if err := scheme.AddToScheme(kubescheme.Scheme); err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	jobs, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	ours := informers.NewSharedInformerFactory(kube, 0)
	theirs := externalversions.NewSharedInformerFactory(jobs, 0)
	core := ours.Core().V1()
	made, err := controller.NewMPIJobController(kube, jobs, nil, nil,
		core.ConfigMaps(), core.Secrets(), core.Services(), ours.Batch().V1().Jobs(), core.Pods(),
		ours.Scheduling().V1().PriorityClasses(), theirs.Kubeflow().V2beta1().MPIJobs(), "", "")
	if err != nil {
		return err
	}
	ours.Start(ctx.Done())
	theirs.Start(ctx.Done())
	return made.Run(2, ctx.Done())
}
