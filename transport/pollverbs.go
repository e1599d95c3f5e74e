package transport

import (
	"context"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/transport/web"
)

// Complete implements web.Polling.
func (s *pollingService) Complete(ctx context.Context, of web.LeaseOf,
	body *rest.LeaseCompletion) (rest.JobOutcome, error) {
	c := peer.LeaseCommand{Verb: rota.VerbComplete, Output: body.Output, OutputDigest: body.OutputDigest,
		Meta: body.Meta, Log: logged(body.Log), Costs: body.Costs}
	if len(body.Children) > 0 {
		var err error
		if c.Children, err = words.GrowthToWire(&rota.Growth{Children: body.Children,
			Detached: body.Detached}); err != nil {
			return rest.JobOutcome{}, err
		}
	} else if body.Detached {
		return rest.JobOutcome{}, rota.Refusef(rota.KindInvalid, "detached",
			"detached is true without children: omit it")
	}
	return s.report(ctx, of, &body.LeaseClaim, c)
}

// Fail implements web.Polling.
func (s *pollingService) Fail(ctx context.Context, of web.LeaseOf, body *rest.LeaseFailure) (rest.JobOutcome, error) {
	c := peer.LeaseCommand{Verb: rota.VerbFail, Text: body.Error, Log: logged(body.Log), Costs: body.Costs, PauseKey: body.PauseKey}
	var asked []string
	ask := func(name string, given bool, kind peer.FailKind) {
		if given {
			asked, c.Fail = append(asked, name), kind
		}
	}
	ask("retry_after_ms", body.RetryAfterMs != 0, peer.FailRetryAfter)
	ask("snooze_ms", body.SnoozeMs != 0, peer.FailSnooze)
	ask("no_retry", body.NoRetry, peer.FailNoRetry)
	ask("cancel", body.Cancel, peer.FailCancel)
	ask("timed_out", body.TimedOut, peer.FailTimedOut)
	if len(asked) > 1 {
		return rest.JobOutcome{}, rota.Refusef(rota.KindInvalid, asked[1],
			"%s exclude each other: set only one of them", strings.Join(asked, " and "))
	}
	for name, ms := range map[string]int64{"retry_after_ms": body.RetryAfterMs, "snooze_ms": body.SnoozeMs} {
		if most := limits.MaxFailWait.Milliseconds(); ms < 0 || ms > most {
			return rest.JobOutcome{}, rota.Refusef(rota.KindInvalid, name,
				"%s must be between 1 and %d (30 days), got %d", name, most, ms)
		}
	}
	c.After = millis.Duration(body.RetryAfterMs + body.SnoozeMs)
	return s.report(ctx, of, &body.LeaseClaim, c)
}

// Decline implements web.Polling.
func (s *pollingService) Decline(ctx context.Context, of web.LeaseOf,
	body *rest.LeaseDecline) (rest.JobOutcome, error) {
	return s.report(ctx, of, &body.LeaseClaim, peer.LeaseCommand{Verb: rota.VerbDecline, Text: body.Reason,
		Log: logged(body.Log), Costs: body.Costs})
}

// Progress implements web.Polling.
func (s *pollingService) Progress(ctx context.Context, of web.LeaseOf,
	body *rest.LeaseProgress) (rest.JobOutcome, error) {
	c := peer.LeaseCommand{Verb: rota.VerbProgress, Progress: body.Progress, Text: body.Note, Costs: body.Costs}
	if body.Final {
		c.Ordinal = peer.FinalReport
	}
	return s.report(ctx, of, &body.LeaseClaim, c)
}

// report proposes one command on a lease.
func (s *pollingService) report(ctx context.Context, of web.LeaseOf, claim *rest.LeaseClaim,
	c peer.LeaseCommand) (rest.JobOutcome, error) {
	lease, err := leaseOf("lease", of.Lease)
	if err != nil {
		return rest.JobOutcome{}, err
	}
	if claim.Token.IsZero() {
		return rest.JobOutcome{}, rota.Refusef(rota.KindInvalid, "token",
			"token is missing: send the lease's token, which acquire returned")
	}
	if claim.Job == "" {
		return rest.JobOutcome{}, rota.Refusef(rota.KindInvalid, "job",
			"job is missing: send the id of the lease's job, which identifies repeated calls")
	}
	c.Lease, c.Job = lease, claim.Job
	if err := checkCommand(&c); err != nil {
		return rest.JobOutcome{}, err
	}
	session, err := s.attach(ctx, of.Worker, of.Secret)
	if err != nil {
		return rest.JobOutcome{}, err
	}
	if err := fenced(ctx, session, lease, claim); err != nil {
		return rest.JobOutcome{}, err
	}
	answers, err := session.Do(ctx, []peer.LeaseCommand{c})
	if err != nil {
		return rest.JobOutcome{}, err
	}
	if err := checkLengths("commands", 1, len(answers)); err != nil {
		return rest.JobOutcome{}, err
	}
	if a := answers[0]; a.Err != nil {
		return rest.JobOutcome{}, a.Err
	}
	return rest.JobOutcome{ID: claim.Job, State: answers[0].JobState, Index: answers[0].Index}, nil
}

// fenced rejects a claim that names a lease with another's token or job. A lease that is not open here may be unknown
// to this node yet; for one that is over, the state machine answers.
func fenced(ctx context.Context, session WorkerSession, lease rota.LeaseID, claim *rest.LeaseClaim) error {
	for _, opt := range []peer.ReadOptions{here, fresh} {
		st, err := session.Standing(ctx, opt)
		if err != nil {
			return err
		}
		for i := range st.Leases {
			l := &st.Leases[i].Lease
			switch {
			case l.ID != lease:
				continue
			case l.Token != claim.Token:
				return rota.Refusef(rota.KindStale, "token",
					"token %s belongs to another attempt, the lease's token is %s: drop the work", claim.Token, l.Token)
			case l.Job != claim.Job:
				return rota.Refusef(rota.KindInvalid, "job", "job: got %.80q, but the lease is for job %s", claim.Job,
					l.Job)
			}
			return nil
		}
	}
	return nil
}

// logged returns an attempt's log in the form in which a worker's stream carries it.
func logged(text string) []byte {
	if text == "" {
		return nil
	}
	var w joblog.Writer
	_, _ = w.Write([]byte(text)) // it never fails
	return w.Close()
}
