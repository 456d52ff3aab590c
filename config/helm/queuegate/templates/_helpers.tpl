{{- define "queuegate.name" -}}
{{- if .Values.nameOverride }}{{ .Values.nameOverride }}
{{- else if .Values.gateOnly.enabled }}{{ .Release.Name }}-gate
{{- else }}{{ .Release.Name }}
{{- end }}
{{- end }}

{{- define "queuegate.labels" -}}
app.kubernetes.io/name: {{ include "queuegate.name" . }}
{{- end }}

{{- /* Labels of the pods. */}}
{{- define "queuegate.selector" -}}
{{- if .Values.gateOnly.enabled }}
{{- if not .Values.gateOnly.selectorLabels }}{{ fail "gateOnly.selectorLabels: want the labels of the pods that contain the gate" }}{{ end }}
{{- toYaml .Values.gateOnly.selectorLabels }}
{{- else }}
{{- include "queuegate.labels" . }}
{{- end }}
{{- end }}

{{- define "queuegate.serviceAccount" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}{{ include "queuegate.name" . }}
{{- end }}
{{- end }}

{{- /* terminationGracePeriodSeconds of a pod with the gate: the longest request, the drain, and some seconds. */}}
{{- define "queuegate.gracePeriod" -}}
{{ add .Values.gate.timeoutSeconds .Values.gate.drainQuietSeconds 20 }}
{{- end }}

{{- /* lifecycle of the application's container, so that it outlives its requests. */}}
{{- define "queuegate.lifecycle" -}}
preStop:
  httpGet:
    path: /wait-for-drain?begins-within=10s
    port: 8022
{{- end }}
