// Package client calls a rota cluster and runs workers.
//
// # Calls
//
// [Dial] takes the addresses of any nodes. A call goes to one of them. When
// that one does not answer, or knows no leader, the call goes to the next, until its
// context ends. Every call that changes something is idempotent by the ids it
// carries (SPEC §2.7), so one whose outcome is unknown is repeated with the same ids:
// [Client.Submit] fills in missing ids before its first try.
//
// Errors are of type [rota.Error]. Test their kind with errors.Is, as in
// errors.Is(err, rota.ErrNotFound). One of kind Unavailable means that no node answered
// before the context ended.
//
// A refused submission carries a delay where waiting helps. Until it has passed, the
// client refuses similar submissions itself, with [ErrHeldBack].
//
// Every read returns a value and an error, and takes the same options: [Stale], [AtLeast],
// [Seen]. Listings, events and waits are iterators. They fetch pages and change nodes as
// they go; breaking out of the loop releases everything, and an error is the last item.
//
// # Workers
//
// [NewWorker] makes a worker, [Worker.Handle] registers a handler for a job type, and
// [Worker.Run] holds one stream to one node. When that node dies the worker moves to
// another, with its leases, while its handlers go on.
//
// A handler's context ends when the worker can no longer rely on the lease: at the
// worker's own view of the deadline, which is never later than the cluster's
// (SPEC §3.9); 30 s after it sent the last beat that was answered; or when
// the node reports that the lease ended or was revoked. context.Cause then returns a
// [LostError]. A handler that goes on regardless may run beside another
// worker's on the same job: pass [Job.Token] to whatever an older attempt must not
// overwrite (SPEC §8.6).
//
// # Definitions
//
// [Define] names a job type together with the Go types of what its handler takes and returns.
// Who submits calls [Definition.Submit], whose [Handle] waits for the output; who works calls
// [Definition.Handle]. Everything of it stands on the calls above: a definition is no more than
// a codec and the options that its jobs share.
//
// # Workflows
//
// [Client.SubmitWorkflow] admits a graph of jobs as a whole or not at all;
// [rota.NewNodeSpec] returns a node with the defaults. A node's job starts when its parents
// have completed, and is leased, retried and reported like any other. Its handler reads
// the parents' outputs with [Job.Parents].
//
// The package never chooses an id that is the server's to choose, never extends a
// lease or starts a handler on its own authority, never resumes a handler whose
// lease it gave up, never reports what a handler did not do, never reads the
// wall clock for a decision, and never imports the server's packages.
package client

// Where to look:
//
//   - client.go, call.go and lead.go connect, choose a node and retry; read.go has what reads
//     and listings share.
//   - jobs.go, wait.go, workflows.go, events.go, limits.go and admin.go are the calls;
//     restraint.go holds submissions back, upload.go sends a workflow in pieces, waitflow.go
//     waits for its end, lives.go revives jobs.
//   - worker.go and run.go are a worker's life, stream.go one connection, outbox.go what it
//     sends, answers.go what comes back, leases.go the leases that it holds, work.go their
//     handlers, pool.go the goroutines of these, view.go what it knows of the cluster's time,
//     unreported.go the outcomes that it could not report; handler.go is what users write.
//   - definition.go and joboptions.go make typed jobs and handlers, handle.go is a job that was
//     submitted, middleware.go what stands around handlers and submissions.
