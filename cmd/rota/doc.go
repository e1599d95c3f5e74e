// Command rota is the one binary: a node of the cluster, its command line and the tools that measure it. This package
// has the tree of commands (root.go) and what each asks of a cluster (calls.go). The commands themselves are in the
// packages of internal/cli; what they share is in internal/cli itself: settings.go (flag, environment, config file),
// connect.go (reaching a cluster), output.go (the format of stdout) and exit.go (the one place where an error becomes
// an exit code).
//
// Data goes to stdout in the format of -o, talk goes to stderr, and the exit code shows a script whether to retry (see
// exit.go).
//
// The commands join the other packages and decide nothing: they never hold a rule
// of scheduling, never touch replicated state but through a node or the client,
// and never retry what the client would not.
package main
