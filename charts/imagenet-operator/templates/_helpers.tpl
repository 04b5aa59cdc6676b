{{/* The name of the operator's objects: the release's, which need not repeat the chart's. */}}
{{- define "imagenet-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the operator's pod; a Deployment cannot change it later. */}}
{{- define "imagenet-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "imagenet-operator.labels" -}}
{{ include "imagenet-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "imagenet-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "imagenet-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The full name of an image; takes a dict of `root` and `image` (repository, tag). */}}
{{- define "imagenet-operator.image" -}}
{{- with .root.Values.registry -}}{{ trimSuffix "/" . }}/{{- end -}}
{{- .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion -}}
{{- end -}}

{{/* Binds a role to the operator's service account; takes a dict of `root`, `kind` and `name`. */}}
{{- define "imagenet-operator.roleRefAndSubjects" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "imagenet-operator.serviceAccountName" .root }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end -}}
