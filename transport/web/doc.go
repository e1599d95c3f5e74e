// Package web is the HTTP front end of a node: resources under /v1 in JSON, described by
// OpenAPI. Every call is that of a service of gRPC, made in the process: package transport has
// the one implementation of each, and the door that both front ends go through.
//
// What a request is held to, in this order: its host and origin (transport/hosts.go), its
// address and its caller's rights (the Door), the names of its parameters, the type and the size of
// its body (request.go), what it takes as it comes (body.go), its fields (decode.go); then what the call itself refuses.
// However it is refused, it is a problem of RFC 9457 that names the field.
//
// It never knows a node, never reads a cookie, and never decides what a call does or who may make it.
package web
