// Command generate writes all .pb.go and _gen.go files of this repository, from the folder of the module:
//
//	go run ./internal/generate          writes the files
//	go run ./internal/generate -check   writes nothing, fails when one is stale
//
// It needs only Go: the .proto files are compiled by protocompile, and the two generators of .pb.go files are tools of
// this module (go.mod), run by `go tool`. Their output equals protoc's except for the line with protoc's version. The
// _gen.go files, which read and write the busiest messages, come from package codec, and from the types of package
// rota: that package must compile. Package sentences writes the doc comments used by the description of HTTP.
//
// It never fetches a file, never writes one partially, and never touches a file that it does not generate.
package main
