// Package helm checks the chart of rota (folder rota) and the plain manifests generated from it (folder kustomize)
// against Kubernetes' own types and rota's own settings. It is a module of its own, so that rota depends on none of its
// dependencies (DESIGN.md).
//
// It never connects to a Kubernetes: nothing is installed.
package helm
