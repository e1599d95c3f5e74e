// Package rest has the bodies of the HTTP API that package rota does not have already: lists,
// what a call that changes something takes and answers, and how one is refused.
//
// The things themselves, a job or a queue, are the types of package rota, whose JSON is what
// `rota ... -o json` prints: HTTP and the command line have one form for each.
//
// It never knows the library of HTTP, and never decides anything: client packages import it.
package rest
