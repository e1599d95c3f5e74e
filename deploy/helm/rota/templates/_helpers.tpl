{{- define "rota.name" -}}
{{- if contains "rota" .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-rota" .Release.Name }}{{ end }}
{{- end }}

{{- define "rota.labels" -}}
{{ include "rota.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "rota.selector" -}}
app.kubernetes.io/name: rota
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The DNS name of a pod, given as (list $ name): it stays when the pod's address changes. */}}
{{- define "rota.host" -}}
{{- $ := index . 0 -}}
{{ index . 1 }}.{{ include "rota.name" $ }}.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}
{{- end }}

{{- define "rota.id" -}}
{{- $ := index . 0 -}}
{{ get $.Values.ids (index . 1) | default (index . 1) }}
{{- end }}

{{/* Checks that the schema cannot express. */}}
{{- define "rota.check" -}}
{{- with .Values }}
{{- if and (eq .tls.mode "none") (not .insecure) }}
{{- fail "tls.mode is none: everyone who reaches the pods could do everything. Choose secret or certManager, or spell out insecure: true" }}
{{- end }}
{{- if and (ne .tls.mode "none") .insecure }}
{{- fail (printf "insecure is true and tls.mode is %s: leave one of them out" .tls.mode) }}
{{- end }}
{{- if and (eq .tls.mode "secret") (not .tls.secretName) }}
{{- fail "tls.mode is secret: tls.secretName is wanted" }}
{{- end }}
{{- if and (eq .tls.mode "certManager") (not .tls.issuer.name) }}
{{- fail "tls.mode is certManager: tls.issuer.name is wanted, of an issuer that is an authority" }}
{{- end }}
{{- if and (ne .tls.mode "none") (not .gossip.secretName) }}
{{- fail "gossip.secretName is wanted: a secret with 32 random bytes in base64 (openssl rand -base64 32)" }}
{{- end }}
{{- range $key := list "node" "cluster" "data" "api" "raft" "admin" "gossip" "join" "bootstrap-expect" "insecure" "tls-cert" "tls-key" "node-ca" "gossip-key-file" }}
{{- if hasKey $.Values.settings $key }}
{{- fail (printf "settings.%s: the chart sets it itself" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $pod, $id := .Values.ids }}
{{- if not (has $pod (include "rota.pods" $ | fromJsonArray)) }}
{{- fail (printf "ids.%s: there is no such pod: one of %s is wanted" $pod (include "rota.pods" $ | fromJsonArray | join ", ")) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rota.pods" -}}
{{- $pods := list -}}
{{- range $i := until (int .Values.replicas) }}{{ $pods = append $pods (printf "%s-%d" (include "rota.name" $) $i) }}{{ end -}}
{{ toJson $pods }}
{{- end }}
