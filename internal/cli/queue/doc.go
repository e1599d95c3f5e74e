// Package queue has the commands of queues and what governs them: tenants, keys, modes, schedules, webhooks, relays and
// zone data.
//
// It never changes more than the one thing that it was given the name of.
package queue
