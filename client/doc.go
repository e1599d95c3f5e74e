// Package client calls a rota cluster and runs workers.
//
// # Calls
//
// [Dial] accepts the addresses of any nodes. A call goes to one of them. If that node does not answer, or knows no
// leader, the call goes to the next node, until the call's context ends. Every call that changes something is
// idempotent by the ids it carries (SPEC §2.7), so a call with an unknown outcome is repeated with the same ids:
// [Client.Submit] fills in missing ids before its first try.
//
// Errors have type [rota.Error]. Test their kind with errors.Is, as in errors.Is(err, rota.ErrNotFound). Kind
// Unavailable means that no node answered before the context ended.
//
// A refused submission carries a delay if a later try can succeed. During that delay the client refuses similar
// submissions itself, with [ErrHeldBack].
//
// Every read returns a value and an error, and accepts the same options: [Stale], [AtLeast], [Seen]. Listings, events
// and waits are iterators. They fetch pages and change nodes as needed; breaking out of the loop releases everything,
// and an error is the last item.
//
// # Workers
//
// [NewWorker] creates a worker, [Worker.Handle] registers a handler for a job type, and [Worker.Run] keeps one stream
// to one node. When that node fails, the worker moves to another node with its leases while its handlers keep running.
//
// A handler's context ends when the worker can no longer rely on the lease:
//
//   - at the deadline by the worker's own view of time, which is never later than the cluster's (SPEC §3.9);
//   - 30 s after the worker sent the last beat that was answered;
//   - when the node reports that the lease ended or was revoked.
//
// context.Cause then returns a [LostError]. A handler that ignores this may run at the same time as another worker's
// handler for the same job: pass [Job.Token] to any system that an older attempt must not overwrite (SPEC §8.6).
//
// # Definitions
//
// [Define] ties a job type to the Go types of its handler's input and output. Producers call [Definition.Submit], whose
// [Handle] waits for the output; workers call [Definition.Handle]. Definitions build on the calls above: a definition
// is only a codec and the options that its jobs share.
//
// # Workflows
//
// [Client.SubmitWorkflow] admits a graph of jobs as a whole or not at all; [rota.NewNodeSpec] returns a node with the
// defaults. A node's job starts when its parents have completed, and is leased, retried and reported like any other
// job. Its handler reads the parents' outputs with [Job.Parents].
//
// The package never chooses an id that the server must choose, never extends a lease or starts a handler on its own
// authority, never resumes a handler whose lease it gave up, never reports what a handler did not do, never reads the
// wall clock for a decision, and never imports the server's packages.
package client

// Where to look:
//
//   - client.go, call.go and lead.go connect, choose a node and retry; read.go has the parts that
//     reads and listings share.
//   - jobs.go, wait.go, workflows.go, events.go, limits.go and admin.go are the calls;
//     restraint.go holds submissions back, upload.go sends a workflow in pieces, waitend.go
//     waits for its end, lives.go revives jobs.
//   - worker.go and run.go are a worker's life cycle, stream.go one connection, outbox.go the
//     messages to send, answers.go the answers received, leases.go the leases held, work.go
//     their handlers, pool.go the handlers' goroutines, view.go the view of the cluster's time,
//     unreported.go the outcomes that could not be reported; handler.go is the API of handlers.
//   - definition.go and joboptions.go make typed jobs and handlers, handle.go is a submitted
//     job, middleware.go wraps handlers and submissions.
