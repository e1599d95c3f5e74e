// Package web is the HTTP front end of a node: resources under /v1 in JSON, described by OpenAPI. Every call is a call
// of a gRPC service, made in the same process. Package transport has the only implementation of each, and the admission
// that both front ends share.
//
// A request is checked in this order:
//
//   - its host and origin (transport/hosts.go);
//   - its address and its caller's rights (the Door);
//   - the names of its parameters, the type and the size of its body (request.go);
//   - the memory that the body uses as it arrives (body.go);
//   - its fields (decode.go);
//   - then the checks of the call itself.
//
// Every rejection is a problem of RFC 9457 that names the field.
//
// The package does not know a node, never reads a cookie, and never decides what a call does or which callers may make
// it.
package web
