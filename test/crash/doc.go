// Package crash makes nodes die where it hurts most: real `rota server` processes, built with the tag failpoints, that
// kill themselves at a named point of their own code while a cluster of three is under load. Each point once in each
// role:
//
//	go test ./test/crash                  each once
//	ROTA_CRASH=100 go test -timeout 5h ./test/crash   a hundred times
//
// After each death the test audits the dead node's log on the disk, restarts the node, and checks that it serves again
// and that all digests are equal. At the end every acknowledged job is completed, and reported so exactly once.
//
// A point that never kills is a failed test, as is one in the sources that has no row in points_test.go. A binary built
// without the tag contains no point.
//
// The package never imports the server's packages, never ends a process that it did not start, and never touches a file
// outside its temporary directories.
package crash
