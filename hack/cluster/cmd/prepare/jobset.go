package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	jobSetNamespace = "jobset-system"
	// jobSetUser is the controller's user name; it has the rights of the role that JobSet ships.
	jobSetUser = "jobset-controller"
	// jobSetLabel is on every pod of a JobSet. JobSet's own installation limits its pod webhooks to it.
	jobSetLabel = "jobset.sigs.k8s.io/jobset-name"
)

// writeJobSet turns the manifests of the JobSet module (role.yaml and webhooks.yaml in MANIFESTS) into
// what fits a controller that runs beside the cluster: it is reached by URL, not through a Service, and
// shows a certificate of the cluster's CA.
func writeJobSet(manifests, run string, port int) error {
	out := filepath.Join(run, "jobset")
	if err := os.MkdirAll(out, 0o700); err != nil {
		return err
	}
	if err := writeJobSetRights(manifests, out); err != nil {
		return err
	}
	if err := writeJobSetWebhooks(manifests, run, out, port); err != nil {
		return err
	}
	return writeYAML(filepath.Join(out, "config.yaml"), map[string]any{
		"apiVersion":             "config.jobset.x-k8s.io/v1alpha1",
		"kind":                   "Configuration",
		"leaderElection":         map[string]any{"leaderElect": false},
		"internalCertManagement": map[string]any{"enable": false},
		"clientConnection":       map[string]any{"qps": 500, "burst": 1000},
		"metrics":                map[string]any{"bindAddress": "0"},
		"health":                 map[string]any{"healthProbeBindAddress": "0"},
		"webhook": map[string]any{
			"host": "127.0.0.1", "port": port, "certDir": filepath.Join(run, "pki", "jobset-webhook"),
		},
	})
}

// writeJobSetRights writes the namespace, JobSet's own role and its binding to the controller's user.
func writeJobSetRights(manifests, out string) error {
	text, err := os.ReadFile(filepath.Join(manifests, "role.yaml"))
	if err != nil {
		return err
	}
	var role rbac.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		return fmt.Errorf("JobSet's role.yaml: %w", err)
	}
	role.Name = "jobset-manager-role"
	namespace := core.Namespace{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: meta.ObjectMeta{Name: jobSetNamespace},
	}
	binding := rbac.ClusterRoleBinding{
		TypeMeta:   meta.TypeMeta{APIVersion: rbac.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: meta.ObjectMeta{Name: "jobset-manager-rolebinding"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: jobSetUser}},
	}
	return writeYAML(filepath.Join(out, "cluster.yaml"), namespace, role, binding)
}

func writeJobSetWebhooks(manifests, run, out string, port int) error {
	ca, err := os.ReadFile(filepath.Join(run, "pki", "ca.crt"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(manifests, "webhooks.yaml"))
	if err != nil {
		return err
	}
	byURL := func(name string, call *admission.WebhookClientConfig) error {
		if call.Service == nil || call.Service.Path == nil {
			return fmt.Errorf("webhook %s of JobSet names no service path", name)
		}
		url := fmt.Sprintf("https://127.0.0.1:%d%s", port, *call.Service.Path)
		*call = admission.WebhookClientConfig{URL: &url, CABundle: ca}
		return nil
	}
	ofJobSets := &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{
		{Key: jobSetLabel, Operator: meta.LabelSelectorOpExists},
	}}
	var mutating admission.MutatingWebhookConfiguration
	var validating admission.ValidatingWebhookConfiguration
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return fmt.Errorf("JobSet's webhooks.yaml: %w", err)
		}
		var err error
		switch kind.Kind {
		case "MutatingWebhookConfiguration":
			err = yaml.UnmarshalStrict(document, &mutating)
		case "ValidatingWebhookConfiguration":
			err = yaml.UnmarshalStrict(document, &validating)
		default:
			err = fmt.Errorf("a %q is not expected", kind.Kind)
		}
		if err != nil {
			return fmt.Errorf("JobSet's webhooks.yaml: %w", err)
		}
	}
	mutating.Name = "jobset-" + mutating.Name
	for i := range mutating.Webhooks {
		hook := &mutating.Webhooks[i]
		if err := byURL(hook.Name, &hook.ClientConfig); err != nil {
			return err
		}
		if concernsPods(hook.Rules) {
			hook.ObjectSelector = ofJobSets
		}
	}
	validating.Name = "jobset-" + validating.Name
	for i := range validating.Webhooks {
		hook := &validating.Webhooks[i]
		if err := byURL(hook.Name, &hook.ClientConfig); err != nil {
			return err
		}
		if concernsPods(hook.Rules) {
			hook.ObjectSelector = ofJobSets
		}
	}
	return writeYAML(filepath.Join(out, "webhooks.yaml"), mutating, validating)
}

func concernsPods(rules []admission.RuleWithOperations) bool {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			if resource == "pods" {
				return true
			}
		}
	}
	return false
}

// writeYAML writes the documents to one file.
func writeYAML(path string, documents ...any) error {
	var file bytes.Buffer
	for _, document := range documents {
		text, err := yaml.Marshal(document)
		if err != nil {
			return err
		}
		file.WriteString("---\n")
		file.Write(text)
	}
	return os.WriteFile(path, file.Bytes(), 0o600)
}
