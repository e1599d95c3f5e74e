// Package ext replaces the package of the same path, whose module the registry does not serve: it adds no settings.
package ext

// HTTP adds nothing to the settings of HTTP.
type HTTP struct{}

// Router adds nothing to the settings of a router.
type Router struct{}
