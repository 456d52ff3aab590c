{{- /* The gate as an init container, for this chart's pods and for those of other charts:
  initContainers:
    {{- include "queuegate.container" .Subcharts.queuegate | nindent 4 }} */}}
{{- define "queuegate.container" -}}
- name: queuegate
  image: {{ .Values.gate.image }}
  restartPolicy: Always
  env:
    - name: USER_PORT
      value: {{ .Values.app.port | quote }}
    - name: CONTAINER_CONCURRENCY
      value: {{ .Values.gate.concurrency | quote }}
    - name: REVISION_TIMEOUT_SECONDS
      value: {{ .Values.gate.timeoutSeconds | quote }}
    - name: SERVING_READINESS_PROBE
      value: {{ toJson .Values.app.readinessProbe | squote }}
    - name: CONTAINER_NAMES
      value: {{ .Values.gateOnly.enabled | ternary .Release.Name (include "queuegate.name" .) }}
    - name: DRAIN_QUIET_SECONDS
      value: {{ .Values.gate.drainQuietSeconds | quote }}
    - name: SERVING_SERVICE
      value: {{ include "queuegate.name" . }}
    - name: SERVING_REVISION
      value: {{ include "queuegate.name" . }}
    - name: SERVING_NAMESPACE
      valueFrom:
        fieldRef:
          fieldPath: metadata.namespace
    - name: SERVING_POD
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    {{- with .Values.gate.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: queue-http
      containerPort: 8012
    - name: queue-admin
      containerPort: 8022
    - name: queue-metrics
      containerPort: 9091
  startupProbe:
    periodSeconds: 1
    timeoutSeconds: 5
    failureThreshold: 60
    httpGet:
      path: /health/alive
      port: 8022
  livenessProbe:
    periodSeconds: 10
    timeoutSeconds: 5
    httpGet:
      path: /health/alive
      port: 8022
  readinessProbe:
    periodSeconds: 1
    timeoutSeconds: 5
    failureThreshold: 3
    httpGet:
      path: /
      port: 8012
      httpHeaders:
        - name: K-Network-Probe
          value: queue
  lifecycle:
    preStop:
      exec:
        command: [queue, drain]
  resources:
    {{- toYaml .Values.gate.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.gate.securityContext | nindent 4 }}
  {{- with .Values.gate.volumeMounts }}
  volumeMounts:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
