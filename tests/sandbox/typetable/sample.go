package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"time"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	scale "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 123456789, time.UTC)

func to[T any](value T) *T { return &value }

func named(name string) meta.ObjectMeta {
	return meta.ObjectMeta{Name: name, Namespace: "lab", Labels: map[string]string{"app": name, "empty": ""}}
}

func kind(apiVersion, kind string) meta.TypeMeta {
	return meta.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

func podSpec() core.PodSpec {
	wanted := core.ResourceList{
		core.ResourceCPU: resource.MustParse("250m"), core.ResourceMemory: resource.MustParse("1536Mi"),
		"example.com/gpu": resource.MustParse("8"),
	}
	return core.PodSpec{
		Volumes: []core.Volume{
			{Name: "scratch", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}},
			{Name: "shm", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{
				Medium: core.StorageMediumMemory, SizeLimit: to(resource.MustParse("1.5Gi"))}}},
			{Name: "settings", VolumeSource: core.VolumeSource{ConfigMap: &core.ConfigMapVolumeSource{
				LocalObjectReference: core.LocalObjectReference{Name: "settings"}, DefaultMode: to(int32(0o440)),
				Items: []core.KeyToPath{{Key: "a", Path: "b", Mode: to(int32(0))}}, Optional: to(false)}}},
			{Name: "token", VolumeSource: core.VolumeSource{Projected: &core.ProjectedVolumeSource{
				Sources: []core.VolumeProjection{{ServiceAccountToken: &core.ServiceAccountTokenProjection{
					Audience: "lab", ExpirationSeconds: to(int64(3607)), Path: "token"}}}}}},
		},
		Containers: []core.Container{{
			Name: "main", Image: "example.com/main:1", Command: []string{"sh", "-c", ""},
			Ports: []core.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: core.ProtocolTCP}},
			Env: []core.EnvVar{
				{Name: "PLAIN", Value: "grüße"},
				{Name: "EMPTY"},
				{Name: "NODE", ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
				{Name: "KEY", ValueFrom: &core.EnvVarSource{SecretKeyRef: &core.SecretKeySelector{
					LocalObjectReference: core.LocalObjectReference{Name: "keys"}, Key: "one", Optional: to(true)}}},
				{Name: "LIMIT", ValueFrom: &core.EnvVarSource{ResourceFieldRef: &core.ResourceFieldSelector{
					Resource: "limits.cpu", Divisor: resource.MustParse("1m")}}},
			},
			EnvFrom:      []core.EnvFromSource{{Prefix: "P_", ConfigMapRef: &core.ConfigMapEnvSource{LocalObjectReference: core.LocalObjectReference{Name: "all"}}}},
			Resources:    core.ResourceRequirements{Requests: wanted, Limits: wanted},
			VolumeMounts: []core.VolumeMount{{Name: "scratch", MountPath: "/scratch", ReadOnly: true}},
			LivenessProbe: &core.Probe{
				ProbeHandler: core.ProbeHandler{HTTPGet: &core.HTTPGetAction{
					Path: "/live", Port: intstr.FromString("web"), HTTPHeaders: []core.HTTPHeader{{Name: "X", Value: "y"}}}},
				InitialDelaySeconds: 5, PeriodSeconds: 10,
			},
			ReadinessProbe: &core.Probe{ProbeHandler: core.ProbeHandler{TCPSocket: &core.TCPSocketAction{Port: intstr.FromInt32(8080)}}},
			StartupProbe:   &core.Probe{ProbeHandler: core.ProbeHandler{Exec: &core.ExecAction{Command: []string{"true"}}}, FailureThreshold: 30},
			Lifecycle:      &core.Lifecycle{PreStop: &core.LifecycleHandler{Sleep: &core.SleepAction{Seconds: 3}}},
			SecurityContext: &core.SecurityContext{
				RunAsNonRoot: to(false), RunAsUser: to(int64(0)), Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}}},
		}},
		EphemeralContainers: []core.EphemeralContainer{{
			EphemeralContainerCommon: core.EphemeralContainerCommon{Name: "debug", Image: "example.com/debug", Stdin: true},
			TargetContainerName:      "main",
		}},
		RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: to(int64(0)),
		NodeSelector: map[string]string{"zone": "a"}, Priority: to(int32(-10)),
		SecurityContext: &core.PodSecurityContext{SupplementalGroups: []int64{0, 7, 1 << 40}},
		Affinity: &core.Affinity{
			NodeAffinity: &core.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
					MatchExpressions: []core.NodeSelectorRequirement{{Key: "gpu", Operator: core.NodeSelectorOpIn, Values: []string{"a", "b"}}}}}},
				PreferredDuringSchedulingIgnoredDuringExecution: []core.PreferredSchedulingTerm{{Weight: 5, Preference: core.NodeSelectorTerm{
					MatchFields: []core.NodeSelectorRequirement{{Key: "metadata.name", Operator: core.NodeSelectorOpExists}}}}},
			},
			PodAntiAffinity: &core.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []core.PodAffinityTerm{{
				LabelSelector: &meta.LabelSelector{}, TopologyKey: "zone", MatchLabelKeys: []string{"app"}}}},
		},
		Tolerations: []core.Toleration{{Operator: core.TolerationOpExists}, {Key: "gone", Effect: core.TaintEffectNoExecute, TolerationSeconds: to(int64(-1))}},
		TopologySpreadConstraints: []core.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: core.DoNotSchedule,
			LabelSelector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "x"}, MatchExpressions: []meta.LabelSelectorRequirement{{Key: "k", Operator: meta.LabelSelectorOpDoesNotExist}}},
		}},
	}
}

func template() core.PodTemplateSpec {
	return core.PodTemplateSpec{
		ObjectMeta: meta.ObjectMeta{Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"note": "π"}},
		Spec:       core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}},
	}
}

func samples() []runtime.Object {
	selector := &meta.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	owned := named("pod")
	owned.OwnerReferences = []meta.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "u-1", Controller: to(true), BlockOwnerDeletion: to(false)}}
	owned.Finalizers = []string{"muster.sh/one"}
	owned.CreationTimestamp = meta.NewTime(noon)
	owned.DeletionTimestamp = to(meta.NewTime(noon))
	owned.ManagedFields = []meta.ManagedFieldsEntry{{
		Manager: "m", Operation: meta.ManagedFieldsOperationApply, APIVersion: "v1", Time: to(meta.NewTime(noon)),
		FieldsType: "FieldsV1", FieldsV1: &meta.FieldsV1{Raw: []byte(`{"f:spec":{"f:volumes":{".":{}}}}`)}}}
	return []runtime.Object{
		&core.Pod{TypeMeta: kind("v1", "Pod"), ObjectMeta: owned, Spec: podSpec(), Status: core.PodStatus{
			Phase: core.PodRunning, StartTime: to(meta.NewTime(noon)), Conditions: []core.PodCondition{{Type: core.PodReady, Status: core.ConditionFalse}}}},
		&core.Pod{TypeMeta: kind("v1", "Pod")},
		&core.ConfigMap{TypeMeta: kind("v1", "ConfigMap"), ObjectMeta: named("config"), Data: map[string]string{"a": "1", "b": ""},
			BinaryData: map[string][]byte{"raw": {0, 255, 1}}, Immutable: to(false)},
		&core.Secret{TypeMeta: kind("v1", "Secret"), ObjectMeta: named("secret"), Data: map[string][]byte{"a": []byte("one"), "empty": {}}, Type: core.SecretTypeOpaque},
		&core.Service{TypeMeta: kind("v1", "Service"), ObjectMeta: named("service"), Spec: core.ServiceSpec{
			Selector: map[string]string{"app": "x"}, ClusterIP: "None", ClusterIPs: []string{"None"}, IPFamilies: []core.IPFamily{core.IPv4Protocol},
			Ports: []core.ServicePort{{Name: "a", Port: 80, TargetPort: intstr.FromString("web"), Protocol: core.ProtocolTCP}, {Name: "b", Port: 81}}}},
		&core.Event{TypeMeta: kind("v1", "Event"), ObjectMeta: named("event"), InvolvedObject: core.ObjectReference{Kind: "Pod", Name: "pod", Namespace: "lab"},
			Reason: "Seen", Message: "it was seen", FirstTimestamp: meta.NewTime(noon), LastTimestamp: meta.NewTime(noon), Count: 2, Type: "Normal"},
		&core.Namespace{TypeMeta: kind("v1", "Namespace"), ObjectMeta: meta.ObjectMeta{GenerateName: "lab-"}},
		&core.Binding{TypeMeta: kind("v1", "Binding"), ObjectMeta: named("pod"), Target: core.ObjectReference{Kind: "Node", Name: "node-1"}},
		&core.PersistentVolume{TypeMeta: kind("v1", "PersistentVolume"), ObjectMeta: meta.ObjectMeta{Name: "pv"}, Spec: core.PersistentVolumeSpec{
			Capacity:               core.ResourceList{core.ResourceStorage: resource.MustParse("10Gi")},
			PersistentVolumeSource: core.PersistentVolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/data", Type: to(core.HostPathUnset)}},
			AccessModes:            []core.PersistentVolumeAccessMode{core.ReadWriteOnce}}},
		&apps.Deployment{TypeMeta: kind("apps/v1", "Deployment"), ObjectMeta: named("deployment"), Spec: apps.DeploymentSpec{
			Replicas: to(int32(0)), Selector: selector, Template: template(),
			Strategy: apps.DeploymentStrategy{Type: apps.RollingUpdateDeploymentStrategyType, RollingUpdate: &apps.RollingUpdateDeployment{
				MaxSurge: to(intstr.FromString("25%")), MaxUnavailable: to(intstr.FromInt32(0))}}}},
		&apps.ControllerRevision{TypeMeta: kind("apps/v1", "ControllerRevision"), ObjectMeta: named("revision"), Revision: 3,
			Data: runtime.RawExtension{Raw: []byte(`{"spec":{"n":[1,2.5,null]}}`)}},
		&batch.Job{TypeMeta: kind("batch/v1", "Job"), ObjectMeta: named("job"), Spec: batch.JobSpec{
			Parallelism: to(int32(4)), Completions: to(int32(4)), CompletionMode: to(batch.IndexedCompletion), Template: template(), Suspend: to(true),
			PodFailurePolicy: &batch.PodFailurePolicy{Rules: []batch.PodFailurePolicyRule{{Action: batch.PodFailurePolicyActionFailJob,
				OnExitCodes: &batch.PodFailurePolicyOnExitCodesRequirement{Operator: batch.PodFailurePolicyOnExitCodesOpIn, Values: []int32{1, -42}}}}}}},
		&rbac.Role{TypeMeta: kind("rbac.authorization.k8s.io/v1", "Role"), ObjectMeta: named("role"), Rules: []rbac.PolicyRule{
			{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/log"}, ResourceNames: []string{"one"}}}},
		&rbac.RoleBinding{TypeMeta: kind("rbac.authorization.k8s.io/v1", "RoleBinding"), ObjectMeta: named("binding"),
			Subjects: []rbac.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "lab"}, {Kind: "User", APIGroup: rbac.GroupName, Name: "ann"}},
			RoleRef:  rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: "role"}},
		&networking.Ingress{TypeMeta: kind("networking.k8s.io/v1", "Ingress"), ObjectMeta: named("ingress"), Spec: networking.IngressSpec{
			Rules: []networking.IngressRule{{Host: "a.example", IngressRuleValue: networking.IngressRuleValue{HTTP: &networking.HTTPIngressRuleValue{
				Paths: []networking.HTTPIngressPath{{Path: "/", PathType: to(networking.PathTypePrefix)}}}}}}}},
		&coordination.Lease{TypeMeta: kind("coordination.k8s.io/v1", "Lease"), ObjectMeta: named("lease"), Spec: coordination.LeaseSpec{
			HolderIdentity: to("me"), LeaseDurationSeconds: to(int32(15)), AcquireTime: to(meta.NewMicroTime(noon)), RenewTime: to(meta.NewMicroTime(time.Unix(0, 0)))}},
		&authorization.SelfSubjectAccessReview{TypeMeta: kind("authorization.k8s.io/v1", "SelfSubjectAccessReview"), Spec: authorization.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorization.ResourceAttributes{Namespace: "lab", Verb: "create", Group: "apps", Resource: "deployments", Subresource: "scale"}}},
		&authorization.SubjectAccessReview{TypeMeta: kind("authorization.k8s.io/v1", "SubjectAccessReview"), Spec: authorization.SubjectAccessReviewSpec{
			NonResourceAttributes: &authorization.NonResourceAttributes{Path: "/metrics", Verb: "get"}, User: "ann", Groups: []string{"a", "b"},
			Extra: map[string]authorization.ExtraValue{"scopes": {"x", "y"}}}},
		&authorization.LocalSubjectAccessReview{TypeMeta: kind("authorization.k8s.io/v1", "LocalSubjectAccessReview"), ObjectMeta: meta.ObjectMeta{Namespace: "lab"},
			Spec: authorization.SubjectAccessReviewSpec{User: "ann"}},
		&authorization.SelfSubjectRulesReview{TypeMeta: kind("authorization.k8s.io/v1", "SelfSubjectRulesReview"), Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: "lab"}},
		&authentication.SelfSubjectReview{TypeMeta: kind("authentication.k8s.io/v1", "SelfSubjectReview")},
		&authentication.TokenReview{TypeMeta: kind("authentication.k8s.io/v1", "TokenReview"), Spec: authentication.TokenReviewSpec{Token: "abc", Audiences: []string{"lab"}}},
		&authentication.TokenRequest{TypeMeta: kind("authentication.k8s.io/v1", "TokenRequest"), Spec: authentication.TokenRequestSpec{
			Audiences: []string{"lab"}, ExpirationSeconds: to(int64(600)), BoundObjectRef: &authentication.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "pod"}}},
		&scale.Scale{TypeMeta: kind("autoscaling/v1", "Scale"), ObjectMeta: named("scale"), Spec: scale.ScaleSpec{Replicas: 3}},
		&policy.Eviction{TypeMeta: kind("policy/v1", "Eviction"), ObjectMeta: named("pod"), DeleteOptions: &meta.DeleteOptions{
			GracePeriodSeconds: to(int64(0)), DryRun: []string{"All"}}},
		&definitions.CustomResourceDefinition{TypeMeta: kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
			ObjectMeta: meta.ObjectMeta{Name: "widgets.example.com"}, Spec: definition()},
		&meta.DeleteOptions{TypeMeta: kind("apps/v1", "DeleteOptions"), PropagationPolicy: to(meta.DeletePropagationForeground),
			Preconditions: &meta.Preconditions{ResourceVersion: to("7")}},
	}
}

// A definition with each form that a part of a schema may take.
func definition() definitions.CustomResourceDefinitionSpec {
	text := definitions.JSONSchemaProps{Type: "string"}
	spec := definitions.JSONSchemaProps{
		Type: "object", Required: []string{"size"},
		XValidations: definitions.ValidationRules{{Rule: "self.size > 0", Message: "size is not positive", Reason: to(definitions.FieldValueInvalid)}},
		Properties: map[string]definitions.JSONSchemaProps{
			"size":   {Type: "integer", Format: "int32", Default: &definitions.JSON{Raw: []byte("1")}, Maximum: to(2.5), Minimum: to(0.0), ExclusiveMaximum: true},
			"color":  {Type: "string", Enum: []definitions.JSON{{Raw: []byte(`"red"`)}, {Raw: []byte(`"blue"`)}}, MaxLength: to(int64(0))},
			"parts":  {Type: "array", Items: &definitions.JSONSchemaPropsOrArray{Schema: &text}, XListType: to("set")},
			"labels": {Type: "object", AdditionalProperties: &definitions.JSONSchemaPropsOrBool{Allows: true, Schema: &text}},
			"free":   {Type: "object", XPreserveUnknownFields: to(true), Nullable: true},
			"port":   {XIntOrString: true, AnyOf: []definitions.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}},
		},
	}
	return definitions.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: definitions.NamespaceScoped,
		Names: definitions.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList", ShortNames: []string{"wd"}},
		Versions: []definitions.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &definitions.CustomResourceValidation{OpenAPIV3Schema: &definitions.JSONSchemaProps{
				Type: "object", Properties: map[string]definitions.JSONSchemaProps{"spec": spec}}},
			Subresources:             &definitions.CustomResourceSubresources{Status: &definitions.CustomResourceSubresourceStatus{}},
			AdditionalPrinterColumns: []definitions.CustomResourceColumnDefinition{{Name: "Size", Type: "integer", JSONPath: ".spec.size"}},
		}},
		Conversion: &definitions.CustomResourceConversion{Strategy: definitions.NoneConverter},
	}
}

// One line per object, so that a change is easy to see.
func printSamples() {
	serializer := protobuf.NewSerializer(nil, nil)
	lines := [][]byte{}
	for _, object := range samples() {
		var encoded bytes.Buffer
		if err := serializer.Encode(object, &encoded); err != nil {
			panic(err)
		}
		line, err := json.Marshal(map[string]any{"object": object, "protobuf": hex.EncodeToString(encoded.Bytes())})
		if err != nil {
			panic(err)
		}
		lines = append(lines, line)
	}
	os.Stdout.WriteString("[\n" + string(bytes.Join(lines, []byte(",\n"))) + "\n]\n")
}
