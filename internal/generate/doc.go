// Command generate writes every .pb.go and _gen.go file of this repository anew, from
// the folder of the module:
//
//	go run ./internal/generate          writes the files
//	go run ./internal/generate -check   writes nothing, fails when one is stale
//
// It needs nothing but Go: the .proto files are compiled by protocompile, and the
// two generators of .pb.go files are tools of this module (go.mod), run by `go tool`.
// Their output is what protoc would have written but for the line that names protoc's
// version. The _gen.go files, which read and write the busiest messages, come from
// package codec, and from the types of package rota: that package must compile. Package
// sentences writes the doc comments that the description of HTTP has.
//
// It never fetches a file, never edits one by halves, and never touches a file
// that it does not generate.
package main
