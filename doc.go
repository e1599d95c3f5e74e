// Package rota holds the words of the scheduler that a user of its client meets: jobs,
// workers, queues, tenants, workflows and events, their states and the one table of legal
// moves, the errors, the policies with their presets, and the limits of what a user gives.
//
// Package client calls a cluster and runs workers. The words are explained in
// docs/glossary.md.
//
// The package never reads a clock, draws chance, touches a file or a socket, or starts a
// goroutine.
package rota
