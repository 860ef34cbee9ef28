package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"knative.dev/networking/pkg/apis/networking/v1alpha1"
	"knative.dev/pkg/apis"
	autoscaling "knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
	serving "knative.dev/serving/pkg/apis/serving/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// defaulted are the kinds to which Knative's webhook gives defaults, without which its controllers do nothing.
var defaulted = map[string]func() apis.Defaultable{
	"Service":           func() apis.Defaultable { return &serving.Service{} },
	"Configuration":     func() apis.Defaultable { return &serving.Configuration{} },
	"Revision":          func() apis.Defaultable { return &serving.Revision{} },
	"Route":             func() apis.Defaultable { return &serving.Route{} },
	"PodAutoscaler":     func() apis.Defaultable { return &autoscaling.PodAutoscaler{} },
	"Ingress":           func() apis.Defaultable { return &v1alpha1.Ingress{} },
	"ServerlessService": func() apis.Defaultable { return &v1alpha1.ServerlessService{} },
}

// serveDefaults answers as Knative's webhook does, with the defaults of its own types. It returns when the API server asks.
func serveDefaults(ctx context.Context, config *rest.Config) error {
	hooks, err := newWebhooks()
	if err != nil {
		return err
	}
	hooks.server.Register("/default", &webhook.Admission{Handler: admission.HandlerFunc(giveDefaults)})
	go func() {
		if err := hooks.server.Start(ctx); err != nil {
			panic(err)
		}
	}()
	if err := hooks.wait(ctx); err != nil {
		return err
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	rule := func(group string) admissionregistration.RuleWithOperations {
		return admissionregistration.RuleWithOperations{
			Operations: []admissionregistration.OperationType{admissionregistration.Create, admissionregistration.Update},
			Rule: admissionregistration.Rule{
				APIGroups: []string{group}, APIVersions: []string{"v1", "v1alpha1"}, Resources: []string{"*"},
			},
		}
	}
	path, none := "/default", admissionregistration.SideEffectClassNone
	hook := admissionregistration.MutatingWebhook{
		Name:                    "webhook.serving.knative.dev",
		AdmissionReviewVersions: []string{"v1"},
		SideEffects:             &none,
		ClientConfig:            admissionregistration.WebhookClientConfig{Service: &admissionregistration.ServiceReference{Path: &path}},
		Rules: []admissionregistration.RuleWithOperations{
			rule("serving.knative.dev"), rule("autoscaling.internal.knative.dev"), rule("networking.internal.knative.dev"),
		},
	}
	hooks.point(&hook.ClientConfig)
	return api.Create(ctx, &admissionregistration.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: hook.Name},
		Webhooks:   []admissionregistration.MutatingWebhook{hook},
	})
}

func giveDefaults(ctx context.Context, request admission.Request) admission.Response {
	make, known := defaulted[request.Kind.Kind]
	if !known {
		return admission.Allowed("")
	}
	object := make()
	if err := json.Unmarshal(request.Object.Raw, object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("%s %s: %w", request.Kind.Kind, request.Name, err))
	}
	object.SetDefaults(ctx)
	changed, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}
