// Package helm holds the chart of rota (folder rota) and the plain manifests made of it (folder kustomize) against Kubernetes'
// own types and rota's own settings. It is a module of its own, so that rota depends on none of what it needs
// (DESIGN.md).
//
// It never speaks to a Kubernetes: nothing is installed.
package helm
