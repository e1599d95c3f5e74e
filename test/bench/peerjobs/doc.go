// Command peerjobs measures other queues the way `rota bench jobs` measures rota: producers store jobs, workers run
// them, and a job ends when its queue confirms that. It prints the same JSON, so that test/bench can measure all of
// them alternately (`make bench-nats`, `make bench-peers`). It is a separate module, so that rota does not depend on
// its dependencies (DESIGN.md).
//
// It never starts or ends servers, and it never touches rota.
package main
