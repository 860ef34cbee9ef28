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
