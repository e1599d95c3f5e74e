// Package e2e checks the finished binary against its promises, from outside: real `rota server` and `rota worker run`
// processes on loopback, killed, stopped and started again, and the command line as scripts see it.
//
//	go test ./test/e2e                       the core selection
//	ROTA_E2E=full go test -timeout 20m ./test/e2e   every test
//	ROTA_E2E=whole go test -timeout 60m ./test/e2e  in the amounts that they are meant for
//
// The binary is built once per run into a temporary directory, or read from ROTA_E2E_BINARY. The name of each test is a
// promise, and each starts the processes that it needs: harness_test.go builds and waits, process_test.go is one
// process, node_test.go one node, cluster_test.go several, load_test.go users whose every job is accounted for,
// policy_*_test.go the requirements of the sources for every policy (DFPS-S §5, AICF §14, the bounds on waiting, job
// why), by workers that follow the test's instructions, one tenant's flood checked decision by decision against the
// state at its height, workflow_*_test.go workflows: recorded ones checked event by event against their graphs
// (testdata/workflows has some, ROTA_WORKFLOWS names a folder with more), the commands, the largest one. The output of
// processes is printed when a test fails.
//
// Tests wait for visible states (readyz, cluster status, a job's state) with a deadline, and sleep only where the test
// is about a length of time. They run four at a time, as most of them wait; -parallel overrides this.
//
// Some promises need more than every machine provides: a full disk needs root and mount, the image needs Docker. Those
// tests state why they were skipped.
//
// The package never looks inside a process, never imports the server's packages, never ends a process that it did not
// start, never leaves one behind, and never touches a file outside its temporary directories.
package e2e
