// Command peerjobs measures other queues the way `rota bench jobs` measures rota: producers store jobs, workers
// take them, and a job ends when its queue confirms that. It prints the same JSON, so that test/bench can measure
// all of them in turns (`make bench-nats`, `make bench-peers`). It is a module of its own, so that rota depends on
// none of what it needs (DESIGN.md).
//
// It never starts or ends servers, and it never touches rota.
package main
