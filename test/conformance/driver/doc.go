// Command driver is the Go client's driver of the conformance suite: package conformance defines its requests and
// answers.
//
// It never judges, and never uses more of the client than its users have.
package main
