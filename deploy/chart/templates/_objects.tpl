{{/*
Objects that are shipped as files, in deploy/agent, deploy/coordinator and so on (files/ links to them): the permissions, policies
and configurations that tests apply as they are. Here they get the namespace of the release and the labels of the chart; nothing
else of them is changed, unless a value asks for it.
*/}}

{{/* muster.documents: the objects of a file, as a map with the key "items". Takes root and file. */}}
{{- define "muster.documents" -}}
{{- $text := .root.Files.Get .file | replace "muster-system" .root.Release.Namespace -}}
{{- if not $text }}{{ fail (printf "the chart lacks %s" .file) }}{{ end -}}
{{- $items := list -}}
{{- range regexSplit "(?m)^---\\s*$" $text -1 -}}
{{- $object := fromYaml . -}}
{{- if $object.Error }}{{ fail (printf "%s: %s" $.file $object.Error) }}{{ end -}}
{{- if $object.kind -}}
{{- $_ := set $object.metadata "labels" (merge (default dict $object.metadata.labels) (include "muster.labels" $.root | fromYaml)) -}}
{{- $items = append $items $object -}}
{{- end -}}
{{- end -}}
{{- dict "items" $items | toJson -}}
{{- end -}}

{{/* muster.shipped: all objects of a file. Takes root and file. */}}
{{- define "muster.shipped" -}}
{{- range (include "muster.documents" . | fromJson).items }}
---
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* muster.definitions: the CustomResourceDefinitions of a file. Takes root and file. Those of ModelServings say who places pods that name
nobody: of Kthena's shape the ModelServing, of the short one each pod. */}}
{{- define "muster.definitions" -}}
{{- $scheduler := include "muster.defaultScheduler" .root -}}
{{- range (include "muster.documents" . | fromJson).items }}
{{- if and $scheduler (eq .spec.names.kind "ModelServing") }}
{{- $spec := (first .spec.versions).schema.openAPIV3Schema.properties.spec.properties }}
{{- if hasKey $spec "template" }}
{{- if not $.root.Values.modelserving.kthenaCompatibility }}{{ $_ := set $spec.schedulerName "default" $scheduler }}{{ end }}
{{- else }}
{{- $_ := set $spec.roles.items.properties.template.properties.spec.properties.schedulerName "default" $scheduler }}
{{- end }}
{{- end }}
{{- if $.root.Values.crds.keep }}
{{- $_ := set .metadata "annotations" (merge (dict "helm.sh/resource-policy" "keep") (default dict .metadata.annotations)) }}
{{- end }}
---
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* muster.webhooks: the webhook configurations of a file, with what values say of all webhooks. Takes root, file and drop, the API
groups whose webhooks are left out. The coordinator fills in caBundle, which is not here: an upgrade leaves it as it is. */}}
{{- define "muster.webhooks" -}}
{{- $values := .root.Values -}}
{{- $schedulers := (include "muster.schedulers" .root | fromJson).items -}}
{{- $names := printf "['%s']" (join "', '" $schedulers) -}}
{{- range (include "muster.documents" . | fromJson).items }}
{{- $hooks := list }}
{{- range .webhooks }}
{{- $dropped := false }}
{{- range .rules }}{{ range .apiGroups }}{{ if has . $.drop }}{{ $dropped = true }}{{ end }}{{ end }}{{ end }}
{{- if not $dropped }}
{{- $_ := set . "failurePolicy" $values.webhooks.failurePolicy }}
{{- $_ := set . "timeoutSeconds" $values.webhooks.timeoutSeconds }}
{{- with .namespaceSelector }}
{{- range .matchExpressions }}
{{- $_ := set . "values" (append $values.webhooks.excludedNamespaces $.root.Release.Namespace | uniq) }}
{{- end }}
{{- end }}
{{- range .matchConditions }}
{{- $_ := set . "expression" (replace "['muster-scheduler']" $names .expression) }}
{{- end }}
{{- $hooks = append $hooks . }}
{{- end }}
{{- end }}
{{- if $hooks }}
{{- $_ := set . "webhooks" $hooks }}
---
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}
