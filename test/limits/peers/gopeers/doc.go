// Command gopeers is the client of peers that have a Go library: `gopeers PEER work` runs a worker, `gopeers PEER
// submit` submits the jobs that it reads and prints the id of each that was acknowledged. It is a separate module, so
// that rota does not depend on its dependencies.
//
// It never starts or ends servers, and it never touches rota.
package main
