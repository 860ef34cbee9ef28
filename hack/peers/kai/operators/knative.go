package main

import (
	"context"
	"fmt"

	"go.uber.org/zap"
	listers "k8s.io/client-go/listers/core/v1"
	"knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/client/injection/kube/informers/core/v1/pod/filtered"
	factory "knative.dev/pkg/client/injection/kube/informers/factory/filtered"
	configmaps "knative.dev/pkg/configmap/informer"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
	"knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
	"knative.dev/serving/pkg/apis/serving"
	"knative.dev/serving/pkg/autoscaler/metrics"
	"knative.dev/serving/pkg/autoscaler/scaling"
	"knative.dev/serving/pkg/reconciler/autoscaling/kpa"
	"knative.dev/serving/pkg/reconciler/configuration"
	"knative.dev/serving/pkg/reconciler/metric"
	"knative.dev/serving/pkg/reconciler/revision"
	"knative.dev/serving/pkg/reconciler/route"
	"knative.dev/serving/pkg/reconciler/serverlessservice"
	"knative.dev/serving/pkg/reconciler/service"
	"knative.dev/serving/pkg/resources"
	ctrl "sigs.k8s.io/controller-runtime"
)

// knative is the controller and the autoscaler of Knative Serving. Nobody asks the services for anything here, so that their
// pods are not asked for numbers either: a revision has the scale that it starts with and the bounds that it names.
func knative(ctx context.Context, _ string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	if err := serveDefaults(ctx, config); err != nil {
		return err
	}
	logger, err := zap.NewDevelopment(zap.IncreaseLevel(zap.InfoLevel))
	if err != nil {
		return err
	}
	log := logger.Sugar()
	ctx = factory.WithSelectors(logging.WithLogger(ctx, log), serving.RevisionUID)
	ctx, informers := injection.Default.SetupInformers(ctx, config)
	settings := configmaps.NewInformedWatcher(client.Get(ctx), system.Namespace())

	pods := filtered.Get(ctx, serving.RevisionUID).Lister()
	collector := metrics.NewMetricCollector(nobodyAsks, log)
	scaler := scaling.NewMultiScaler(ctx.Done(), scalerOf(pods, collector), log)
	controllers := []*controller.Impl{
		configuration.NewController(ctx, settings),
		revision.NewController(ctx, settings),
		route.NewController(ctx, settings),
		serverlessservice.NewController(ctx, settings),
		service.NewController(ctx, settings),
		kpa.NewController(ctx, settings, scaler),
		metric.NewController(ctx, settings, collector),
	}
	if err := settings.Start(ctx.Done()); err != nil {
		return err
	}
	if err := controller.StartInformers(ctx.Done(), informers...); err != nil {
		return err
	}
	return controller.StartAll(ctx, controllers...)
}

func nobodyAsks(*v1alpha1.Metric, *zap.SugaredLogger) (metrics.StatsScraper, error) {
	return nil, nil
}

func scalerOf(pods listers.PodLister, collector *metrics.MetricCollector) scaling.UniScalerFactory {
	return func(decider *scaling.Decider) (scaling.UniScaler, error) {
		revision := decider.Labels[serving.RevisionLabelKey]
		if revision == "" {
			return nil, fmt.Errorf("the decider %s has no label %s", decider.Name, serving.RevisionLabelKey)
		}
		accessor := resources.NewPodAccessor(pods, decider.Namespace, revision)
		return scaling.New(context.Background(), decider.Namespace, decider.Name, collector, accessor, &decider.Spec), nil
	}
}
