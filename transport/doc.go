// Package transport speaks rota's protocol over gRPC: the public services that
// clients and workers call on any node (SPEC §13), and the service by which
// nodes speak to each other.
//
// A call comes in as wire messages, is checked for identity and shape at this
// edge, becomes words of package rota, and goes to a [Core]; what the core says
// goes back the same way. Refusals travel as gRPC status with standard details
// (package api/words), so that the caller gets the very *rota.Error back.
//
// The rooms, one file a thing:
//
//   - server.go: the server's life: construct, Serve, Drain.
//   - edge.go: what every call passes: size, deadline, panic, status.
//   - jobs.go, workers.go, queues.go, clusterapi.go, nodeservice.go,
//     workflows.go: one service each; pages.go cuts lists by bytes.
//   - upload.go: a workflow as it arrives, piece by piece (SPEC §11.1);
//     overtake.go: streams that neither side may hold open without end.
//   - worker.go, workersend.go: a worker's stream (SPEC §13.3).
//   - health.go, listener.go: readiness, and a cap on connections.
//   - peers.go: the calling side of the node service.
//
// Every call has an effective deadline a little before the caller's own, so
// that the server's own answer, UNAVAILABLE with a delay, arrives while the
// caller still listens (SPEC §13.1).
//
// The package never decides anything about a job, never retries or forwards a
// call by itself, never mints an id (SPEC §2.7), never writes a file, and knows
// neither Raft nor the state machine nor package cluster.
package transport
