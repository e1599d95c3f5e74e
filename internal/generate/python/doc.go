// Package python writes the protocol module of the Python SDK: one module that creates the messages of rota.v1 from
// their descriptors, and a stub file for type checkers.
//
// protoc's own output would do the same, but checks at import that it was made by nearly the installed release of
// protobuf; descriptors work with any release, and need no protoc.
//
// It never writes a file itself, and never describes messages between nodes.
package python
