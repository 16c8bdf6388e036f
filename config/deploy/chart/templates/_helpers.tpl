{{/* The labels that select the pods; they never change. */}}
{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: scheduler
{{- end }}

{{- define "berth.labels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/part-of: berth
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The name of all objects, and of what is not in a namespace. */}}
{{- define "berth.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The lease, and where it is: that of kube-scheduler is in kube-system. */}}
{{- define "berth.lease" -}}
{{ ternary "kube-scheduler" (include "berth.name" .) .Values.inPlace }}
{{- end }}

{{- define "berth.leaseNamespace" -}}
{{ ternary "kube-system" .Release.Namespace .Values.inPlace }}
{{- end }}

{{- define "berth.account" -}}
- kind: ServiceAccount
  name: {{ include "berth.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* What a profile without a name is called, as in a configuration without profiles. */}}
{{- define "berth.schedulerName" -}}
{{ ternary "default-scheduler" "berth" .Values.inPlace }}
{{- end }}

{{/* The KubeSchedulerConfiguration. */}}
{{- define "berth.configuration" -}}
{{- $configuration := .Values.configuration | default dict -}}
{{- $named := dict "schedulerName" (include "berth.schedulerName" .) -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceName: {{ include "berth.lease" . }}
  resourceNamespace: {{ include "berth.leaseNamespace" . }}
{{- with omit $configuration "profiles" }}
{{ toYaml . }}
{{- end }}
profiles:
{{- range $configuration.profiles | default (list dict) }}
{{ list (merge (dict) . $named) | toYaml | indent 2 }}
{{- end }}
{{- end }}
