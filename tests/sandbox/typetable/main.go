// Prints the table that the sandbox decodes built-in kinds with: one line per Go struct of the
// Kubernetes API, one line per field, in the order of the names.
//
//	go run . > ../src/builtin/types.txt
//
// With `sample` it prints made-up objects, each as JSON and as protobuf, to test the decoder with.
//
//	go run . sample > ../src/builtin/protobuf_samples.json
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	scale "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var kinds = map[string][]any{
	"": {
		core.Namespace{}, core.Node{}, core.Pod{}, core.Service{}, core.Endpoints{}, core.ConfigMap{},
		core.Secret{}, core.ServiceAccount{}, core.Event{}, core.PersistentVolume{},
		core.PersistentVolumeClaim{}, core.ReplicationController{}, core.PodTemplate{},
		core.LimitRange{}, core.ResourceQuota{}, core.Binding{},
	},
	"apps": {
		apps.Deployment{}, apps.ReplicaSet{}, apps.StatefulSet{}, apps.DaemonSet{},
		apps.ControllerRevision{},
	},
	"batch":                        {batch.Job{}, batch.CronJob{}},
	"policy":                       {policy.PodDisruptionBudget{}, policy.Eviction{}},
	"coordination.k8s.io":          {coordination.Lease{}},
	"rbac.authorization.k8s.io":    {rbac.Role{}, rbac.RoleBinding{}, rbac.ClusterRole{}, rbac.ClusterRoleBinding{}},
	"admissionregistration.k8s.io": {admissionregistration.MutatingWebhookConfiguration{}, admissionregistration.ValidatingWebhookConfiguration{}, admissionregistration.ValidatingAdmissionPolicy{}, admissionregistration.ValidatingAdmissionPolicyBinding{}},
	"discovery.k8s.io":             {discovery.EndpointSlice{}},
	"events.k8s.io":                {events.Event{}},
	"scheduling.k8s.io":            {scheduling.PriorityClass{}},
	"storage.k8s.io":               {storage.StorageClass{}, storage.CSINode{}, storage.CSIDriver{}, storage.VolumeAttachment{}},
	"node.k8s.io":                  {node.RuntimeClass{}},
	"networking.k8s.io":            {networking.NetworkPolicy{}, networking.Ingress{}, networking.IngressClass{}},
	"autoscaling":                  {autoscaling.HorizontalPodAutoscaler{}},
	"certificates.k8s.io":          {certificates.CertificateSigningRequest{}},
}

// What clients send and nobody stores.
var messages = map[string][]any{
	"authentication.k8s.io": {authentication.TokenReview{}, authentication.TokenRequest{}, authentication.SelfSubjectReview{}},
	"authorization.k8s.io":  {authorization.SubjectAccessReview{}, authorization.SelfSubjectAccessReview{}, authorization.LocalSubjectAccessReview{}, authorization.SelfSubjectRulesReview{}},
	"autoscaling":           {scale.Scale{}},
	"meta.k8s.io":           {meta.DeleteOptions{}},
}

// What is read by this table from protobuf only: as JSON it has rules of its own.
var encoded = map[string][]any{
	"apiextensions.k8s.io": {definitions.CustomResourceDefinition{}},
}

// Types with a JSON form of their own. A schema or something else is '?', what else, and the schema's struct.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":   "raw",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":    "raw",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "intorstring",
	extensions + ".JSON":                              "raw",
	extensions + ".JSONSchemaPropsOrBool":             "?bool" + schema,
	extensions + ".JSONSchemaPropsOrArray":            "?schemas" + schema,
	extensions + ".JSONSchemaPropsOrStringArray":      "?names" + schema,
}

const extensions = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
const schema = "#apiextensions/v1.JSONSchemaProps"

var structs = map[string][]string{}

func short(t reflect.Type) string {
	path := t.PkgPath()
	path = strings.TrimPrefix(path, "k8s.io/api/")
	path = strings.TrimPrefix(path, "k8s.io/apimachinery/pkg/")
	path = strings.TrimPrefix(path, "k8s.io/apiextensions-apiserver/pkg/")
	path = strings.TrimPrefix(path, "apis/")
	return path + "." + t.Name()
}

func describe(t reflect.Type) string {
	if s, ok := special[t.PkgPath()+"."+t.Name()]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + describe(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		name := ""
		if t.Name() != "" {
			name = t.String() + "="
		}
		return name + "[]" + describe(t.Elem())
	case reflect.Map:
		name := ""
		if t.Name() != "" {
			name = t.String() + "="
		}
		key := ""
		if t.Key().String() != "string" {
			key = t.Key().String()
		}
		return name + "{" + key + "}" + describe(t.Elem())
	case reflect.Struct:
		name := short(t)
		if _, ok := structs[name]; !ok {
			structs[name] = nil
			structs[name] = fields(t, "")
		}
		return "#" + name
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.String, reflect.Float64:
		if t.PkgPath() != "" {
			return t.Kind().String() + ":" + t.String()
		}
		return t.Kind().String()
	}
	panic("no form for " + t.String())
}

// The number of a field that has none in protobuf, and of all that is embedded there.
const unnumbered = "-"

// The wire kind and number that the field's tag says, behind the numbers of the messages around it:
// what JSON has inline is a message of its own in protobuf.
func number(field reflect.StructField, around string) (kind, path string) {
	tag := strings.Split(field.Tag.Get("protobuf"), ",")
	if around == unnumbered || len(tag) < 2 && field.Anonymous {
		return "", unnumbered
	}
	if len(tag) < 2 {
		panic("no protobuf number: " + field.Name)
	}
	kind, ok := map[string]string{"bytes": "b", "varint": "v"}[tag[0]]
	if !ok {
		panic("no wire kind: " + field.Name)
	}
	return kind, around + tag[1]
}

func fields(t reflect.Type, around string) []string {
	var out []string
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		kind, path := number(field, around)
		if field.Anonymous && name == "" {
			if path != unnumbered {
				path += "."
			}
			out = append(out, fields(field.Type, path)...)
			continue
		}
		flag := "-"
		for _, option := range strings.Split(options, ",") {
			switch option {
			case "omitzero":
				flag = "z"
			case "omitempty":
				if flag == "-" {
					flag = "o"
				}
			}
		}
		out = append(out, fmt.Sprintf("%s %s %s%s %s", name, flag, kind, path, describe(field.Type)))
	}
	sort.Strings(out)
	return out
}

func printKinds(out *bufio.Writer, mark string, kinds map[string][]any) {
	var groups []string
	for group := range kinds {
		groups = append(groups, group)
	}
	sort.Strings(groups)
	for _, group := range groups {
		for _, object := range kinds[group] {
			t := reflect.TypeOf(object)
			fmt.Fprintf(out, "%s%s/%s %s\n", mark, group, t.Name(), describe(t))
		}
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "sample" {
		printSamples()
		return
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, "// Generated by tests/sandbox/typetable. Kinds: '@' stored, '!' only sent, '~' from protobuf only.")
	fmt.Fprintln(out, "// Fields: name; '-' printed always, 'o' omitempty, 'z' omitzero; protobuf kind ('b' bytes, 'v' varint) and number,")
	fmt.Fprintln(out, "// '2.1' for number 1 in a message at number 2 that JSON has inline; type.")
	printKinds(out, "@", kinds)
	printKinds(out, "!", messages)
	printKinds(out, "~", encoded)
	var names []string
	for name := range structs {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(out, "#%s\n", name)
		for _, field := range structs[name] {
			fmt.Fprintln(out, field)
		}
	}
}
