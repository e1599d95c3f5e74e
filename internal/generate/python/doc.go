// Package python writes what the Python SDK knows of the protocol: one module that makes the
// messages of rota.v1 of their descriptors, and what a type checker reads beside it.
//
// protoc's own output would do the same, but checks at import that it was made by nearly the
// installed release of protobuf; descriptors work with any, and need no protoc.
//
// It never writes a file itself, and never describes what only nodes say to each other.
package python
