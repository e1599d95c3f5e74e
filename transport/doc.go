// Package transport serves rota's protocol over gRPC: the public services that clients and workers call on any node
// (SPEC §13), and the service between nodes.
//
// A call arrives as wire messages. Identity and shape are checked at this edge, the messages are converted to types of
// package rota, and they are passed to a [Core]. The core's answer returns the same way. Errors travel as gRPC status
// with standard details (package api/words), so that the caller gets exactly the *rota.Error back.
//
// The files, by topic:
//
//   - server.go: the server's life: construct, Serve, Drain.
//   - sorting.go, firstrequest.go: gRPC or HTTP, for each connection.
//   - edge.go: checks on every call: size, deadline, panic, status.
//   - jobs.go, workers.go, queues.go, clusterapi.go, nodeservice.go,
//     workflows.go: one service each; pages.go cuts lists by bytes.
//   - upload.go: a workflow as it arrives, piece by piece (SPEC §11.1);
//     longstream.go: streams that neither side may hold open without end.
//   - worker.go, workersend.go: a worker's stream (SPEC §13.3).
//   - health.go, listener.go: readiness, and a cap on connections.
//   - peers.go: the calling side of the node service.
//
// Every call has an effective deadline a little before the caller's own, so that the server's own answer, UNAVAILABLE
// with a delay, arrives while the caller still listens (SPEC §13.1).
//
// The package never decides anything about a job, never retries or forwards a call by itself, never mints an id (SPEC
// §2.7) and never writes a file. It does not import Raft, the state machine or package cluster.
package transport
