// Command hostile plays each row of who may never do what (SECURITY §1) against a running
// cluster, and prints what held, in the words of the refusals.
//
//	go run ./test/hostile -rota bin/rota
//	go run ./test/hostile -rota bin/rota -plant
//
// It starts three real nodes on loopback, with certificates, tokens and a gossip key, and two
// tenants with a worker each. An actor is a table of probes; each probe is one attempt and says
// what must come of it. After each actor's probes the cluster must be as it was: the same three
// members, all acknowledged jobs, no forged term, equal digests, and no node that took more than
// 64 MiB. The exit code is 1 where something did not hold.
//
// With -plant the doors stand open: callers without a credential, and the token of a tenant, may
// do everything. Then the probes that are marked so must report that nothing held, or they prove
// nothing.
//
// What needs another user id is left out. Probes are bounded in count and time. The program never looks inside a process, never ends one that it did
// not start, and never leaves one behind.
package main
