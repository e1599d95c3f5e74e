// Command limits runs the same work under the same faults on rota and on other job systems with their real servers, and
// writes docs/limits-under-failover.md.
//
//	make limits-report                          # all systems; about 50 minutes on two cores
//	make limits-report ONLY=rota,bullmq         # these systems; others keep their figures
//	go run ./test/limits -only rota -faults cut # one run
//
// A run starts the servers of one system, a submitter and two worker processes. Jobs of many keys call a stub of a
// model provider, which records when each call arrives and ends (provider.go). A few keys always have waiting jobs;
// each is held back by one limit: starts per second, concurrency, or units (work.go). After a calm part comes one
// fault (run.go): none, the deciding server killed, a worker killed, a worker with a wrong clock, a worker cut off by
// its TCP proxy. The judge (judge.go) compares the provider's record with the limits; it reads no log and no clock of
// a system. It does not judge a limit that a system does not offer.
//
// rota.go, bullmq.go, dbos.go, asynq.go and temporal.go describe the systems, with pinned versions and settings. Their
// client processes are in peers; those in Go are a module of their own, so that rota does not depend on theirs.
// Packages are installed below rota-limits in the user's cache directory, from npm, PyPI and the Go module proxy.
// redis-server, PostgreSQL and libfaketime are Debian's packages. A system that cannot be installed is reported as not
// run.
//
// -json names the file with all figures; systems that are not run keep theirs. -rewrite writes the page from it.
// -keep keeps the directory with logs.
//
// The program never changes the system, and never ends a process that it did not start. All traffic stays on loopback.
package main
