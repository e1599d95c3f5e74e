package rig

import (
	"context"
	"errors"
	"time"
)

// Poll is the interval of polling.
const Poll = 10 * time.Millisecond

// Until calls try until it returns nil. If ctx ends, it returns try's last error, and at once if that is Final.
func Until(ctx context.Context, try func() error) error {
	tick := time.NewTicker(Poll)
	defer tick.Stop()
	for {
		err := try()
		var final *finalError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &final):
			return final.error
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Within is Until with a time limit.
func Within(most time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return Until(ctx, try)
}

type finalError struct{ error }

// Final marks an error that no later try fixes.
func Final(err error) error { return &finalError{err} }
