{{- define "queuegate.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}
