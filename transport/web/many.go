package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// manyCalls serves the calls of many jobs at once.
type manyCalls struct{ *Site }

// manyJobs registers the calls of many jobs at once, and the remaining calls of one job.
func (s *Site) manyJobs() {
	c := manyCalls{s}
	add(s, route{method: http.MethodPost, path: "/v1/jobs:cancel", call: rotav1.Jobs_Cancel_FullMethodName,
		id: "cancelJobs", says: "Cancel 1 to 1,000 jobs; each job has its own outcome"}, c.cancelJobs)
	add(s, route{method: http.MethodPost, path: "/v1/jobs:retry", call: rotav1.Jobs_Retry_FullMethodName,
		id: "retryJobs", says: "Retry 1 to 1,000 jobs that have ended; each job has its own outcome"}, c.retryJobs)
	add(s, route{method: http.MethodPost, path: "/v1/jobs:delete", call: rotav1.Jobs_Delete_FullMethodName,
		id: "deleteJobs", says: "Delete 1 to 1,000 jobs that have ended; each job has its own outcome"}, c.deleteJobs)
	inPieces(s, route{method: http.MethodPost, path: "/v1/jobs:wait", call: rotav1.Jobs_Wait_FullMethodName,
		id: "waitJobs", lasts: maxWait,
		says: "Stream each of 1 to 1,000 jobs as it ends, one per line"},
		linesType, schemaOf[rest.JobEnded], c.waitJobs)
	add(s, route{method: http.MethodPost, path: "/v1/jobs/{id}/report-proof",
		call: rotav1.Jobs_ReportProof_FullMethodName, id: "reportProof",
		says: "Report that the proof of a completed job is invalid"}, c.reportProof)
}

// JobsCall is a call about many jobs.
type JobsCall struct{ Given In[rest.JobIDs] }

// texts returns the ids of a call; an empty or null id rejects the whole call.
func texts(ids []rota.JobID) ([]string, error) {
	all := make([]string, len(ids))
	for i, id := range ids {
		if all[i] = string(id); id == "" {
			return nil, rota.Refusef(rota.KindInvalid, fmt.Sprintf("ids[%d]", i),
				"ids[%d] is empty: use the id of a job", i)
		}
	}
	return all, nil
}

// changed returns the answer to a change of many jobs.
func changed(done *rotav1.JobOutcomes, err error) (*Answer[rest.JobsChanged], error) {
	if err != nil {
		return nil, err
	}
	all := rest.JobsChanged{Jobs: make([]rest.JobChanged, len(done.GetJobs()))}
	for i, w := range done.GetJobs() {
		o, err := words.JobOutcomeFromWire(w)
		if err != nil {
			return nil, err
		}
		all.Jobs[i].JobOutcome = rest.JobOutcome{ID: o.ID, State: o.State, Index: o.Index}
		if o.Err != nil {
			p := words.Problem(o.Err)
			all.Jobs[i].Error = &p
			all.Refused++
		}
	}
	return answer(all, nil), nil
}

func (s manyCalls) cancelJobs(ctx context.Context, in *JobsCall) (*Answer[rest.JobsChanged], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	ids, err := texts(body.IDs)
	if err != nil {
		return nil, err
	}
	return changed(s.options.Calls.Jobs.Cancel(ctx, &rotav1.CancelJobsRequest{Ids: ids}))
}

func (s manyCalls) deleteJobs(ctx context.Context, in *JobsCall) (*Answer[rest.JobsChanged], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	ids, err := texts(body.IDs)
	if err != nil {
		return nil, err
	}
	return changed(s.options.Calls.Jobs.Delete(ctx, &rotav1.DeleteJobsRequest{Ids: ids}))
}

// RetriesCall is a call that runs many jobs again.
type RetriesCall struct{ Given In[rest.JobRetries] }

func (s manyCalls) retryJobs(ctx context.Context, in *RetriesCall) (*Answer[rest.JobsChanged], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	ids, err := texts(body.IDs)
	if err != nil {
		return nil, err
	}
	return changed(s.options.Calls.Jobs.Retry(ctx, &rotav1.RetryJobsRequest{Ids: ids, Lives: body.Lives}))
}

// JobsWait is a call that waits for many jobs.
type JobsWait struct {
	Wait  string `query:"wait" maxLength:"32" default:"60s" doc:"Maximum time to wait, at most 60s. Then the last line has an error of kind TIMEOUT: call again with the remaining jobs."`
	Given In[rest.JobIDs]
}

func (s manyCalls) waitJobs(ctx context.Context, in *JobsWait) (*Pieces, error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	ids, err := texts(body.IDs)
	if err != nil {
		return nil, err
	}
	most, err := waitOf(in.Wait)
	if err != nil {
		return nil, err
	}
	return sent(linesType, func(w *sender) error {
		within, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		err := s.options.Calls.WaitJobs(within, ids, func(m *rotav1.Job) error {
			job, err := words.JobFromWire(m)
			if err != nil {
				return err
			}
			return w.line(rest.JobEnded{Job: &job})
		})
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			w.begin()
			return rota.Refusef(rota.KindTimeout, "wait",
				"not all of the jobs ended within %s: ask again for the others", most)
		}
		return err
	}, func(w *sender, err error) { _ = w.line(ended(err)) }), nil // a client that is gone does not read it
}

// waitOf parses how long a call waits.
func waitOf(text string) (time.Duration, error) {
	most, err := rota.ParseDuration(text)
	if err != nil || most <= 0 || most > maxWait {
		return 0, rota.Refusef(rota.KindInvalid, "wait",
			"wait must be more than 0 and at most %s, got %q; use a value such as 30s", maxWait, head(text))
	}
	return most, nil
}

func (s manyCalls) reportProof(ctx context.Context, in *Setting[rest.ProofReport]) (*Answer[rest.JobOutcome], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	done, err := s.options.Calls.Jobs.ReportProof(ctx, &rotav1.ReportProofRequest{Id: in.ID, LeaseId: body.Lease,
		Reason: body.Reason})
	if err != nil {
		return nil, err
	}
	return outcomeOf(done)
}
