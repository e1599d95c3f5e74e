package client

import (
	"errors"
	"fmt"

	"github.com/rotasched/rota"
)

// RefusedError is what Submit returns when each job has its outcome and some were
// refused. errors.As finds the first *rota.Error among them, errors.Is any of them.
type RefusedError struct {
	// Jobs are the outcomes of those that were refused, in the order of submission.
	Jobs []rota.Submitted
	// Of is how many were submitted.
	Of int
}

// Error implements error: how many were refused, and why the first was.
func (e *RefusedError) Error() string {
	first := &e.Jobs[0]
	if e.Of == 1 {
		return fmt.Sprintf("submit: job %s is refused: %v", first.ID, first.Err)
	}
	return fmt.Sprintf("submit: %d of %d jobs are refused, first %s: %v", len(e.Jobs), e.Of, first.ID, first.Err)
}

// Unwrap returns every job's refusal.
func (e *RefusedError) Unwrap() []error {
	all := make([]error, len(e.Jobs))
	for i := range e.Jobs {
		all[i] = e.Jobs[i].Err
	}
	return all
}

// EachOutcome takes what Submit returned for a caller who looks at every outcome: refused
// jobs alone are no error then.
//
//	outcomes, err := client.EachOutcome(c.Submit(ctx, jobs...))
func EachOutcome(outcomes []rota.Submitted, err error) ([]rota.Submitted, error) {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		err = nil
	}
	return outcomes, err
}

// refusals returns the *RefusedError of a submission, nil if every job was taken.
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
