// Command driver is the Go client's driver of the conformance suite: package conformance says
// what it takes and answers.
//
// It never judges, and never uses more of the client than its users have.
package main
