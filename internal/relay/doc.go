// Package relay connects a cluster with outside systems: it posts events to the receivers of webhooks (SPEC §13.14),
// and submits jobs from the outbox of a PostgreSQL database (SPEC §13.15). It is a client like any other; nodes never
// call out.
//
// It never decides which events are delivered: the cluster's log does.
package relay
