// Package framework takes the place of the package of the same name in Kthena's end-to-end tests.
//
// The original installs Kthena by helm. Here Muster runs already and does what Kthena's controller manager does for ModelServings. What
// else that manager does and Muster does not, the tests get from Kthena's own code: the webhooks of ModelBooster and AutoscalingPolicy
// are served by this process. A pod stands for the manager where a test looks for one; whoever runs the coordinators kills them when it
// is deleted.
package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	autoscaler "github.com/volcano-sh/kthena/pkg/autoscaler/webhook"
	booster "github.com/volcano-sh/kthena/pkg/model-booster-controller/webhook"
	"github.com/volcano-sh/kthena/test/e2e/utils"
	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
)

// What tests look for: the namespace of the manager, and the label of its pods.
const (
	namespace = "dev"
	label     = "app.kubernetes.io/component"
	manager   = "kthena-controller-manager"
)

// KthenaConfig has the fields that tests set.
type KthenaConfig struct {
	Namespace                 string
	WorkloadEnabled           bool
	NetworkingEnabled         bool
	GatewayAPIEnabled         bool
	InferenceExtensionEnabled bool
	ImageTag                  string
	ChartPath                 string
}

// NewDefaultConfig names the namespace.
func NewDefaultConfig() *KthenaConfig {
	return &KthenaConfig{Namespace: namespace, WorkloadEnabled: true}
}

var (
	stop    context.CancelFunc
	running sync.WaitGroup
	undo    []func(context.Context) error
)

// InstallKthena brings what Muster does not.
func InstallKthena(config *KthenaConfig) error {
	client, err := utils.GetKubeClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop = cancel
	if err := utils.CreateTestNamespace(client, config.Namespace); err != nil {
		return err
	}
	if err := serveWebhooks(ctx, client); err != nil {
		return fmt.Errorf("webhooks of ModelBooster and AutoscalingPolicy: %w", err)
	}
	if err := standIn(ctx, client); err != nil {
		return fmt.Errorf("the pod that stands for the manager: %w", err)
	}
	running.Go(func() {
		for ctx.Err() == nil {
			if err := standIn(ctx, client); err != nil && ctx.Err() == nil {
				fmt.Println("the pod that stands for the manager:", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	return nil
}

// UninstallKthena takes it away again.
func UninstallKthena(string) error {
	if stop == nil {
		return nil
	}
	defer running.Wait()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// The configurations first: others must not be sent to a server that is gone.
	for _, step := range undo {
		if err := step(ctx); err != nil && !errors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// Makes the pod unless it is there.
func standIn(ctx context.Context, client kubernetes.Interface) error {
	pods := client.CoreV1().Pods(namespace)
	_, err := pods.Get(ctx, manager, meta.GetOptions{})
	if !errors.IsNotFound(err) {
		return err
	}
	_, err = pods.Create(ctx, &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: manager, Labels: map[string]string{label: manager}},
		Spec:       core.PodSpec{Containers: []core.Container{{Name: "manager", Image: manager, Command: []string{"sleep", "infinity"}}}},
	}, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func serveWebhooks(ctx context.Context, client kubernetes.Interface) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return err
	}
	kinds := map[string]struct{ mutate, validate http.HandlerFunc }{
		"modelboosters":       {booster.NewModelMutator().Handle, booster.NewModelValidator().Handle},
		"autoscalingpolicies": {autoscaler.NewAutoscalingPolicyMutator().Handle, autoscaler.NewAutoscalingPolicyValidator().Handle},
	}
	routes := http.NewServeMux()
	var mutating []admission.MutatingWebhook
	var validating []admission.ValidatingWebhook
	none, fail := admission.SideEffectClassNone, admission.Fail
	for resource, handlers := range kinds {
		routes.HandleFunc("/mutate/"+resource, handlers.mutate)
		routes.HandleFunc("/validate/"+resource, handlers.validate)
		at := func(what string) admission.WebhookClientConfig {
			url := fmt.Sprintf("https://%s/%s/%s", listener.Addr(), what, resource)
			return admission.WebhookClientConfig{URL: &url, CABundle: certificate}
		}
		rules := []admission.RuleWithOperations{{
			Operations: []admission.OperationType{admission.Create, admission.Update},
			Rule:       admission.Rule{APIGroups: []string{"workload.serving.volcano.sh"}, APIVersions: []string{"v1alpha1"}, Resources: []string{resource}},
		}}
		mutating = append(mutating, admission.MutatingWebhook{Name: "mutate." + resource + ".volcano.sh", ClientConfig: at("mutate"),
			Rules: rules, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}})
		validating = append(validating, admission.ValidatingWebhook{Name: "validate." + resource + ".volcano.sh", ClientConfig: at("validate"),
			Rules: rules, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}})
	}
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	running.Go(func() { _ = server.Serve(listener) })
	running.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	named := meta.ObjectMeta{GenerateName: "kthena-"}
	configurations := client.AdmissionregistrationV1()
	first, err := configurations.MutatingWebhookConfigurations().Create(ctx,
		&admission.MutatingWebhookConfiguration{ObjectMeta: named, Webhooks: mutating}, meta.CreateOptions{})
	if err != nil {
		return err
	}
	second, err := configurations.ValidatingWebhookConfigurations().Create(ctx,
		&admission.ValidatingWebhookConfiguration{ObjectMeta: named, Webhooks: validating}, meta.CreateOptions{})
	if err != nil {
		return err
	}
	undo = append(undo,
		func(ctx context.Context) error {
			return configurations.MutatingWebhookConfigurations().Delete(ctx, first.Name, meta.DeleteOptions{})
		},
		func(ctx context.Context) error {
			return configurations.ValidatingWebhookConfigurations().Delete(ctx, second.Name, meta.DeleteOptions{})
		})
	return nil
}
