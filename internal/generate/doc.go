// Command generate writes every .pb.go file of this repository anew, from the
// folder of the module:
//
//	go run ./internal/generate          writes the files
//	go run ./internal/generate -check   writes nothing, fails when one is stale
//
// It needs nothing but Go: the .proto files are compiled by protocompile, and the
// two generators are tools of this module (go.mod), run by `go tool`. The output
// is what protoc would have written but for the line that names protoc's version.
//
// It never fetches a file, never edits one by halves, and never touches a file
// that it does not generate.
package main
