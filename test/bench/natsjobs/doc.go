// Command natsjobs measures NATS JetStream the way `rota bench jobs` measures rota: jobs
// go into a replicated work queue, workers take them, and a job ends when the server
// confirmed its acknowledgement. It prints the same JSON, so that test/bench can measure
// both in turns (`make bench-nats`). It is a module of its own, so that rota depends on
// none of what it needs (docs/adr/0021-measured-beside-nats.md).
//
// It never starts or ends servers, and it never touches rota.
package main
