package client

import (
	"context"
	"iter"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// submitBytes bounds the jobs of one message: the message limit less the space for lengths and tags.
const submitBytes = limits.MaxMessageBytes - 16<<10

// Submit submits jobs and returns the outcome of each at its index. Missing ids are set before the first try and
// returned in the outcomes. Jobs with an unknown outcome are submitted again with the same ids, to other nodes too,
// until ctx ends (SPEC §2.7).
//
// The error is nil only if every job was accepted. A job that the cluster refused has the reason in its Err, and a
// *RefusedError counts and wraps the refusals; the other jobs were accepted. Any other error means that some jobs have
// no outcome: it is in their Err too. Use EachOutcome to look at every outcome.
//
// An outcome's Throttle reports that the job was accepted, but that its queue, or the number of jobs its workers should
// have pending, is more than half full. A caller that submits many jobs should pause before the next batch: the cluster
// refuses jobs before it is full (SPEC §4.6).
//
// A refusal by a full queue or by a tenant's rate limit carries a delay. Until the delay has passed (for a queue, up to
// a quarter more, so that clients do not all return at once) this client refuses jobs of that queue or tenant itself,
// with the same text and the rest of the delay; errors.Is(err, ErrHeldBack) reports this. It refuses only jobs with new
// ids: jobs that the cluster may already know are always sent.
func (c *Client) Submit(ctx context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
	return c.submitter(ctx, jobs...)
}

// run performs the submission, inside the middleware of WithSubmitter.
func (b *submission) run(ctx context.Context, c *Client) ([]rota.Submitted, error) {
	var last *rota.Error
	for try := 0; len(b.open) > 0; try++ {
		for _, part := range b.split() {
			if err := c.submitPart(ctx, b, part); err != nil {
				b.giveUp(words.FromStatus(err))
				return b.outcomes, err
			}
		}
		if last = b.keepOpen(); last == nil {
			break
		}
		if !pause(ctx, retryDelay(try, last.RetryAfter)) {
			err := c.gaveUp(ctx, "submit", last)
			b.giveUp(words.FromStatus(err))
			return b.outcomes, err
		}
	}
	return b.outcomes, b.refusals()
}

// submission is one call of Submit in progress.
type submission struct {
	jobs     []rota.JobSpec
	minted   []bool
	outcomes []rota.Submitted
	// open are the indexes of the jobs without an outcome.
	open []int
}

func newSubmission(c *Client, jobs []rota.JobSpec) *submission {
	b := &submission{
		jobs: slices.Clone(jobs), minted: make([]bool, len(jobs)),
		outcomes: make([]rota.Submitted, len(jobs)), open: make([]int, 0, len(jobs)),
	}
	for i := range b.jobs {
		spec := &b.jobs[i]
		if spec.ID == "" {
			spec.ID, spec.Minted = NewJobID(), true
		}
		b.minted[i] = spec.Minted
		b.outcomes[i].ID = spec.ID
		if spec.Minted {
			if e := c.held.refuses(spec); e != nil {
				b.outcomes[i].Err = e
				continue
			}
		}
		if words.MaxJobSpec(spec) > submitBytes {
			if n := words.JobSpecSize(spec); n > submitBytes {
				b.outcomes[i].Err = rota.Refusef(rota.KindInvalid, "payload",
					"payload too long: the job has %d bytes, maximum %d", n, rota.MaxPayloadBytes)
				continue
			}
		}
		b.open = append(b.open, i)
	}
	return b
}

// split divides the open jobs into messages.
func (b *submission) split() [][]int {
	var parts [][]int
	from, size := 0, 0
	for k, i := range b.open {
		n := words.MaxJobSpec(&b.jobs[i])
		if k-from == limits.MaxBatchJobs || (k > from && size+n > submitBytes) {
			parts, from, size = append(parts, b.open[from:k:k]), k, 0
		}
		size += n
	}
	if from < len(b.open) {
		parts = append(parts, b.open[from:])
	}
	return parts
}

func (c *Client) submitPart(ctx context.Context, b *submission, part []int) error {
	return c.callAt(ctx, "submit", c.toLead, func(ctx context.Context, n *node) error {
		request := words.WriteSubmission(len(part), func(k int) *rota.JobSpec { return &b.jobs[part[k]] })
		var answer words.SubmitOutcomes
		var trailer metadata.MD
		err := n.conn.Invoke(ctx, rotav1.Jobs_Submit_FullMethodName, request, &answer,
			grpc.StaticMethod(), grpc.Trailer(&trailer))
		c.lead.note(c.nodes, trailer)
		for _, i := range part {
			b.jobs[i].Minted = false // from now on the cluster may know it: an outcome may have been lost
		}
		if err != nil {
			return err
		}
		if err := sameCount("submit", len(answer.Jobs), len(part)); err != nil {
			return err
		}
		for k, i := range part {
			s := answer.Jobs[k]
			// A minted id is new: a job found under it is our own first try, unless it was merged into another one,
			// whose state may be secret.
			s.ID, s.Existed = b.outcomes[i].ID, s.Existed && (!b.minted[i] || s.Holder != "" || s.State == rota.JobNone)
			b.outcomes[i] = s
			c.held.note(&b.jobs[i], rota.ErrorOf(s.Err))
		}
		return nil
	})
}

// keepOpen keeps the jobs without an outcome open and returns the last error.
func (b *submission) keepOpen() (last *rota.Error) {
	open := b.open[:0]
	for _, i := range b.open {
		if e := rota.ErrorOf(b.outcomes[i].Err); e != nil && e.Kind == rota.KindUnavailable {
			open, last = append(open, i), e
		}
	}
	b.open = open
	return last
}

// giveUp sets the error of every job without an outcome. It sets no state and no refusal, since only the cluster
// decides those.
func (b *submission) giveUp(why *rota.Error) {
	for _, i := range b.open {
		s := &b.outcomes[i]
		if s.State == rota.JobNone && (s.Err == nil || rota.KindOf(s.Err) == rota.KindUnavailable) {
			s.Err = why
		}
	}
}

// Job reads one job. The error is of kind NotFound if the id is unknown.
func (c *Client) Job(ctx context.Context, id rota.JobID, opts ...ReadOption) (rota.Job, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetJobResponse, error) {
		return n.jobs.Get(ctx, &rotav1.GetJobRequest{Id: string(id), Read: how})
	}
	from := func(w *rotav1.GetJobResponse) (rota.Job, error) { return words.JobFromWire(w.GetJob()) }
	return read(ctx, c, "show job", opts, from, ask)
}

// Jobs lists the jobs that a filter selects, the newest first, live jobs before ended ones: all of them from the
// filter's Cursor on, or as many as its Limit. A job that existed when the list began is listed once, even if it ends
// meanwhile; a job submitted or retried since then is not listed. A cursor of another filter, or from before a restore,
// is rejected as Invalid.
func (c *Client) Jobs(ctx context.Context, filter rota.JobFilter, opts ...ReadOption) iter.Seq2[rota.Job, error] {
	ask := func(ctx context.Context, n *node, p page) (got pageOf[rota.Job], err error) {
		f := filter
		f.Limit, f.Cursor, f.Count, f.GroupBy = p.limit, p.cursor, false, ""
		answer, err := n.jobs.List(ctx, words.JobFilterToWire(&f, p.read))
		if err != nil {
			return got, err
		}
		page, _, err := words.JobPageFromWire(answer)
		return pageOf[rota.Job]{page.Jobs, page.NextCursor, answer.GetAt()}, err
	}
	return list(ctx, c, "list jobs", filter.Limit, filter.Cursor, opts, ask)
}

// CountJobs counts the jobs that a filter selects, regardless of its Limit, by group if its GroupBy is set. One call
// looks at about 100,000 jobs: if there are more, the count is not Complete, and a filter with its NextCursor
// continues.
func (c *Client) CountJobs(ctx context.Context, filter rota.JobFilter, opts ...ReadOption) (rota.JobCount, error) {
	filter.Count, filter.Limit = true, 0
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.ListJobsResponse, error) {
		w := words.JobFilterToWire(&filter, peer.ReadOptions{})
		w.Read = how
		return n.jobs.List(ctx, w)
	}
	from := func(w *rotav1.ListJobsResponse) (rota.JobCount, error) {
		page, _, err := words.JobPageFromWire(w)
		if err != nil || page.Counted == nil {
			return rota.JobCount{}, err
		}
		return *page.Counted, nil
	}
	return read(ctx, c, "count jobs", opts, from, ask)
}

// Cancel cancels jobs and returns the outcome of each at its index.
func (c *Client) Cancel(ctx context.Context, ids ...rota.JobID) ([]rota.JobOutcome, error) {
	cancel := func(ctx context.Context, n *node, part []string) (*rotav1.JobOutcomes, error) {
		return n.jobs.Cancel(ctx, &rotav1.CancelJobsRequest{Ids: part})
	}
	return c.change(ctx, "cancel", ids, cancel)
}

// Interrupt ends the current attempt of each job so that the job is tried again (SPEC §21.9), including nodes of
// workflows. The lease is revoked: the job is queued once its worker has stopped. If counted is set, the attempts are
// used up. The outcome of each job is at its index; a job without an open lease is refused as Conflict.
func (c *Client) Interrupt(ctx context.Context, counted bool, ids ...rota.JobID) ([]rota.JobOutcome, error) {
	interrupt := func(ctx context.Context, n *node, part []string) (*rotav1.JobOutcomes, error) {
		return n.jobs.Interrupt(ctx, &rotav1.InterruptJobsRequest{Ids: part, Counted: counted})
	}
	return c.change(ctx, "interrupt", ids, interrupt)
}

// RunNow queues DELAYED jobs before their time, with the attempts that they have left (SPEC §21.10). The outcome of
// each job is at its index; a job that is not DELAYED, or whose last worker may still run it, is refused as Conflict.
func (c *Client) RunNow(ctx context.Context, ids ...rota.JobID) ([]rota.JobOutcome, error) {
	run := func(ctx context.Context, n *node, part []string) (*rotav1.JobOutcomes, error) {
		return n.jobs.RunNow(ctx, &rotav1.RunJobsNowRequest{Ids: part})
	}
	return c.change(ctx, "run now", ids, run)
}

// DeleteJobs deletes jobs that have ended (SPEC §21.3): they can no longer be read, and their ids are free. The outcome
// of each job is at its index, with the state it was in; a job that has not ended is refused as Conflict. Deleting
// again succeeds.
func (c *Client) DeleteJobs(ctx context.Context, ids ...rota.JobID) ([]rota.JobOutcome, error) {
	remove := func(ctx context.Context, n *node, part []string) (*rotav1.JobOutcomes, error) {
		return n.jobs.Delete(ctx, &rotav1.DeleteJobsRequest{Ids: part})
	}
	return c.change(ctx, "delete", ids, remove)
}

// ChangeJob changes a pending job (SPEC §21.2). Its place by age stays, and so do the fields that change leaves out. A
// job that is leased or has ended is refused as Conflict. If change does not name the life and the number of earlier
// changes it builds on, these are read before the first try: then a repeated change whose answer was lost does not
// overwrite a later one, but is refused as Stale.
func (c *Client) ChangeJob(ctx context.Context, change rota.JobChange) (rota.JobOutcome, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.JobOutcome, error) {
		if change.Life == nil && change.Changes == nil {
			job, err := briefly(ctx, n, string(change.ID))
			if err != nil {
				return nil, err
			}
			change.Life, change.Changes = &job.Life, &job.Changes
		}
		return n.jobs.Change(ctx, words.JobChangeToWire(&change))
	}
	return one(ctx, c, "change job", words.JobOutcomeFromWire, ask)
}

type changeCall func(ctx context.Context, n *node, ids []string) (*rotav1.JobOutcomes, error)

// change sends ids in parts; ids without an outcome are sent again until ctx ends.
func (c *Client) change(ctx context.Context, op string, ids []rota.JobID,
	f changeCall) ([]rota.JobOutcome, error) {
	outcomes := make([]rota.JobOutcome, len(ids))
	open := make([]int, len(ids))
	for i := range ids {
		outcomes[i].ID, open[i] = ids[i], i
	}
	for try := 0; len(open) > 0; try++ {
		var again []int
		var last *rota.Error
		for len(open) > 0 {
			part := open[:min(len(open), limits.MaxBatchJobs)]
			if err := c.changePart(ctx, op, part, outcomes, f); err != nil {
				return noOutcome(outcomes, append(again, open...), err)
			}
			open = open[len(part):]
			for _, i := range part {
				if e := rota.ErrorOf(outcomes[i].Err); e != nil && e.Kind == rota.KindUnavailable {
					again, last = append(again, i), e
				}
			}
		}
		if open = again; last == nil {
			break
		}
		if !pause(ctx, retryDelay(try, last.RetryAfter)) {
			return noOutcome(outcomes, open, c.gaveUp(ctx, op, last))
		}
	}
	return outcomes, nil
}

func noOutcome(outcomes []rota.JobOutcome, open []int, err error) ([]rota.JobOutcome, error) {
	for _, i := range open {
		outcomes[i].Err = words.FromStatus(err)
	}
	return outcomes, err
}

func (c *Client) changePart(ctx context.Context, op string, part []int,
	outcomes []rota.JobOutcome, f changeCall) error {
	ids := make([]string, len(part))
	for k, i := range part {
		ids[k] = string(outcomes[i].ID)
	}
	return c.call(ctx, op, maxAnswer, func(ctx context.Context, n *node) error {
		answer, err := f(ctx, n, ids)
		if err != nil {
			return err
		}
		if err := sameCount(op, len(answer.Jobs), len(part)); err != nil {
			return err
		}
		for k, i := range part {
			o, err := words.JobOutcomeFromWire(answer.Jobs[k])
			if err != nil {
				return err
			}
			o.ID = outcomes[i].ID
			outcomes[i] = o
		}
		return nil
	})
}

func sameCount(op string, got, want int) error {
	if got == want {
		return nil
	}
	text := "the node answered " + plural(got, "outcome") + " for " + plural(want, "job")
	return &rota.Error{Kind: rota.KindInternal, Op: op, Text: text}
}
