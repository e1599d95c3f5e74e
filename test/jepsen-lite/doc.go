// Command jepsen-lite breaks a cluster of real `rota server` processes on
// purpose, keeps users busy with it meanwhile, and judges what they were told.
//
//	go run ./test/jepsen-lite --duration 120s --seed 7 --nodes 3 -o json
//
// It prints one verdict and writes a history (history.json.gz) and a report
// (report.html); the exit code is 1 where a promise was broken. --recheck FILE
// judges a saved history again, with today's checkers.
//
// # How it is built
//
// Nodes and workers are processes of their own, so killing and pausing them is
// real, and all read the one monotonic clock of the host, so their intervals can
// be compared. Where network namespaces can be made each process has one, with
// this program as the router between them: a partition is a route that swallows
// packets silently, in one direction if so wished. Elsewhere all stand on
// loopback and no partition is made, which the verdict says.
//
// # Where things stand
//
//   - nemesis.go lists the faults, nemesis_*.go are one each;
//   - workload.go lists the users, workload_*.go are one each;
//   - checker.go lists the promises, check_*.go are one each, and each is shown
//     to bite in check_*_test.go;
//   - run.go is the order of a run, liveness.go its last phase, ending.go what every
//     node by itself, and a newcomer, must tell alike after it;
//   - history.go and history_events.go are what is remembered, report*.go what people see.
//
// Faults go on until the duration is over; then everything is mended, and only
// then liveness is judged. Safety is judged over all of it.
//
// It never looks inside the product: it knows the binary's flags, the client
// library and the public protocol. It never invents an outcome that it did not
// see, never ends a process that it did not start, never judges a partition that
// it could not make, and never leaves a network or a process behind.
package main
