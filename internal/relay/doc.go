// Package relay carries between a cluster and what lies outside of it: events to the receivers of
// webhooks (SPEC §13.14), and jobs from the outbox of a PostgreSQL database (SPEC §13.15). It is a
// client like any other; nodes never call out.
//
// It never decides what is delivered: the cluster's log does.
package relay
