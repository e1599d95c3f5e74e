package client

import (
	"errors"
	"fmt"

	"github.com/rotasched/rota"
)

// RefusedError is returned by Submit when each job has an outcome and some were refused. errors.As finds the first
// *rota.Error of these outcomes, errors.Is any of them.
type RefusedError struct {
	// Jobs are the outcomes of the refused jobs, in the order of submission.
	Jobs []rota.Submitted
	// Of is the number of submitted jobs.
	Of int
}

// Error implements error: it gives the number of refused jobs and the reason of the first.
func (e *RefusedError) Error() string {
	first := &e.Jobs[0]
	if e.Of == 1 {
		return fmt.Sprintf("submit: job %s is refused: %v", first.ID, first.Err)
	}
	return fmt.Sprintf("submit: %d of %d jobs are refused, first %s: %v", len(e.Jobs), e.Of, first.ID, first.Err)
}

// Unwrap returns the error of every refused job.
func (e *RefusedError) Unwrap() []error {
	all := make([]error, len(e.Jobs))
	for i := range e.Jobs {
		all[i] = e.Jobs[i].Err
	}
	return all
}

// EachOutcome filters the results of Submit for callers who look at every outcome: it drops the error if all it reports
// is refused jobs.
//
//	outcomes, err := client.EachOutcome(c.Submit(ctx, jobs...))
func EachOutcome(outcomes []rota.Submitted, err error) ([]rota.Submitted, error) {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		err = nil
	}
	return outcomes, err
}

// refusals returns the *RefusedError of a submission, nil if every job was accepted.
func (b *submission) refusals() error {
	var refused []rota.Submitted
	for _, s := range b.outcomes {
		if s.Err != nil {
			refused = append(refused, s)
		}
	}
	if refused == nil {
		return nil
	}
	return &RefusedError{Jobs: refused, Of: len(b.outcomes)}
}
