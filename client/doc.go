// Package client is the public Go library: calls to a cluster, and workers.
//
// # Calls
//
// [Dial] takes the addresses of any nodes. A call goes to one of them; when
// that one does not answer, or knows no leader, the next is asked, until the
// context ends. Every call that changes something is idempotent by the ids it
// carries (SPEC §2.7), so an unknown outcome is asked again with the same ids:
// [Client.Submit] mints missing ids before its first try.
//
// Errors are *rota.Error; rota.KindOf says what to do. Unavailable means that
// no node answered in the time the context gave.
//
// A refused submission names a delay where time mends it; until it has passed the client
// refuses its like by itself ([ErrHeldBack]).
//
// Every read returns a value and an error, and takes the same options: [Stale], [AtLeast],
// [Seen]. Listings, events and waits are iterators, which page and change nodes by
// themselves; a loop that is broken leaves nothing behind, and an error is its last item.
//
// # Workers
//
// [NewWorker] makes a worker, [Worker.Handle] names what it can do, [Worker.Run]
// holds one stream to one node and moves to another when that one dies, with
// its leases and its handlers going on.
//
// A handler's context ends when its lease can no longer be believed in: at the
// worker's own view of the deadline, which is never later than the cluster's
// (SPEC §3.9), or 30 s after sending the last beat that was answered, or when
// the node says that the lease ended or was revoked. context.Cause then is a
// [LostError]. A handler that goes on regardless may run beside another
// worker's on the same job: pass [Job.Token] on to what must not be written by
// an older attempt (SPEC §8.6).
//
// # Workflows
//
// [Client.SubmitWorkflow] admits a graph of jobs, all of it or nothing;
// [rota.NewNodeSpec] starts a node of it. A node's job starts when its parents have completed, and is leased, retried and reported on as
// any other; its handler reads what they put out by [Job.Parents].
//
// # Files
//
// client.go and call.go connect, rotate and retry; read.go has what
// reads and listings share; jobs.go, wait.go, workflows.go, events.go and admin.go are the calls; restraint.go holds submissions back; upload.go sends a workflow in pieces, waitflow.go
// waits for its end. worker.go and run.go live a worker's life, stream.go is one
// connection, outbox.go what it sends, answers.go what comes back, book.go the
// leases it holds, work.go their handlers, hands.go the goroutines of these, view.go what it believes about time,
// clock_*.go the local clock, handler.go what users write.
//
// The package never mints an id that a server was to choose, never extends a
// lease or starts a handler on its own word, never resumes a handler whose
// lease it gave up, never reports what a handler did not do, never reads the
// wall clock for a decision, and never imports the server's packages.
package client
