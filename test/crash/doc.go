// Package crash has nodes die where it hurts most: real `rota server` processes,
// built with the tag failpoints, that kill themselves at a named point of their own
// code while a cluster of three is under load. Each point once in each role:
//
//	go test ./test/crash                  each once
//	ROTA_CRASH=100 go test -timeout 5h ./test/crash   a hundred times
//
// After each death the dead node's log is audited as it lies on the disk, the node is
// started again, serves again, and all digests are equal. At the end every job that
// was acknowledged is completed, and told to be so exactly once.
//
// A point that never kills is a failed test, as is one in the sources that no row of
// points_test.go knows. A binary built without the tag holds no point.
//
// The package never imports the server's packages, never ends a process that it did
// not start, and never touches a file outside its temporary directories.
package crash
