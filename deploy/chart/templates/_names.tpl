{{/* muster.labels: what every object carries. */}}
{{- define "muster.labels" -}}
app.kubernetes.io/part-of: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* muster.image: takes root and name. */}}
{{- define "muster.image" -}}
{{- with .root.Values.image -}}
{{ trimSuffix "/" .registry }}/{{ $.name }}:{{ .tag | default $.root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* muster.flags: a map of flags as arguments, in the order of their names; a list gives one argument for each of its items. */}}
{{- define "muster.flags" -}}
{{- range $name, $value := . }}
{{- range (kindIs "slice" $value | ternary $value (list $value)) }}
- {{ printf "--%s=%s" $name (toString .) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* muster.confined: what every container of ours gives up. */}}
{{- define "muster.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* muster.leaderWorkerSets: not empty if LeaderWorkerSets become ModelServings. */}}
{{- define "muster.leaderWorkerSets" -}}
{{- if and .Values.modelserving.enabled .Values.modelserving.leaderWorkerSets }}true{{ end -}}
{{- end -}}

{{/* muster.schedulers: the names under which the coordinator places pods, as a map with the key "items". */}}
{{- define "muster.schedulers" -}}
{{- $names := index .Values.coordinator.flags "scheduler-name" | default "muster-scheduler" -}}
{{- if kindIs "string" $names }}{{ $names = list $names }}{{ end -}}
{{- if and .Values.modelserving.enabled .Values.modelserving.kthenaCompatibility .Values.scheduler.enabled }}{{ $names = append $names "volcano" | uniq }}{{ end -}}
{{- dict "items" $names | toJson -}}
{{- end -}}

{{/* muster.defaultScheduler: who places pods that name nobody; empty: the cluster's. */}}
{{- define "muster.defaultScheduler" -}}
{{- if and .Values.scheduler.enabled .Values.scheduler.default -}}
{{ first (include "muster.schedulers" . | fromJson).items }}
{{- end -}}
{{- end -}}
