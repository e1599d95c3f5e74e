// Command rota is the one binary: a node of the cluster, its command line and
// the tools that measure it. Each subcommand is a file; what they share is
// root.go (the tree), settings.go (flag, environment, config file), connect.go
// (reaching a cluster), output.go (what goes to stdout) and exit.go (the one
// place where an error becomes an exit code).
//
// Data goes to stdout in the format of -o, talk goes to stderr, and the exit
// code says what a script may do next (see exit.go).
//
// This package joins the others and decides nothing: it never holds a rule of
// scheduling, never touches replicated state but through a node or the client,
// and never retries what the client would not.
package main
