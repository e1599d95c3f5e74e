// Command hostile plays each row of the list of forbidden actions (SECURITY §1) against a running cluster, and prints
// which defences held, with the text of the refusals.
//
//	go run ./test/hostile -rota bin/rota
//	go run ./test/hostile -rota bin/rota -plant
//
// It starts three real nodes on loopback, with certificates, tokens and a gossip key, and two tenants with a worker
// each. An actor is a table of probes; each probe is one attempt and defines its expected result. After each actor's
// probes the cluster must be unchanged: the same three members, all acknowledged jobs, no forged term, equal digests,
// and no node whose memory grew by more than 64 MiB. The exit code is 1 if a defence did not hold.
//
// With -plant the defences are removed: callers without a credential, and the token of a tenant, have all rights. Then
// the marked probes must report that nothing held, or they prove nothing.
//
// Probes that need another user id are left out. Probes are bounded in count and time. The program never looks inside a
// process, never ends one that it did not start, and never leaves one behind.
package main
