package transport

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// decide proposes one batch and answers it by its sequence.
func (w *workStream) decide(batch *words.FromWorker) {
	answers, err := w.decideEach(batch)
	if err != nil {
		deniedItem(w.ctx, err)
		w.push(words.WriteAnswers(batch.Sequence, nil, refusalOf(w.ctx, err)))
	} else {
		w.push(words.WriteAnswers(batch.Sequence, answers, nil))
	}
	w.pushNotices() // gRPC writes both at once
}

func (w *workStream) decideEach(batch *words.FromWorker) ([]peer.LeaseAnswer, error) {
	all := batch.Commands
	if err := checkCount("commands", len(all), limits.MaxBatchJobs); err != nil {
		return nil, err
	}
	var answers []peer.LeaseAnswer // nil while every command is valid
	var places []int
	good := all[:0]
	for i := range all {
		var err error
		if batch.Faults != nil {
			err = batch.Faults[i]
		}
		if err == nil {
			err = checkCommand(&all[i])
		}
		if err != nil {
			if answers == nil {
				answers = make([]peer.LeaseAnswer, len(all))
				for before := range i {
					places = append(places, before)
				}
			}
			answers[i].Err = refusalOf(w.ctx, err)
			continue
		}
		if answers != nil {
			places = append(places, i)
		}
		good = append(good, all[i])
	}
	if len(good) == 0 {
		return answers, nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
	defer cancel()
	done, err := w.session.Do(ctx, good)
	if err != nil {
		return nil, err
	}
	if err := checkLengths("commands", len(good), len(done)); err != nil {
		return nil, err
	}
	for n := range done {
		if e := done[n].Err; e != nil {
			deniedItem(w.ctx, e)
		}
	}
	if answers == nil {
		return done, nil
	}
	for n := range done {
		answers[places[n]] = done[n]
	}
	return answers, nil
}

// checkCommand rejects a command that no lease could accept, and truncates its text: a log entry must not grow by text
// that is cut anyway.
func checkCommand(c *peer.LeaseCommand) error {
	if c.Lease.IsZero() {
		return rota.Refusef(rota.KindInvalid, "lease_id", "lease_id is missing in a command")
	}
	if c.Job != "" {
		if err := rota.CheckJobRef("job", c.Job); err != nil {
			return err
		}
	}
	if n := len(c.Output); n > rota.MaxPayloadBytes {
		return rota.Refusef(rota.KindInvalid, "output", "output too long: got %d bytes, maximum %d", n,
			rota.MaxPayloadBytes)
	}
	if n := len(c.OutputDigest); n != 0 && n != 32 {
		return rota.Refusef(rota.KindInvalid, "output_digest", "output_digest: got %d bytes, want 32 or none", n)
	}
	if err := checkChildren(c); err != nil {
		return err
	}
	if c.Progress < 0 || c.Progress > 100 {
		return rota.Refusef(rota.KindInvalid, "progress", "progress must be between 0 and 100, got %d", c.Progress)
	}
	if err := c.Costs.Check("costs"); err != nil {
		return err
	}
	if len(c.Log) > 0 {
		if _, err := joblog.Decode(c.Log); err != nil {
			return err
		}
	}
	if c.Ordinal < 0 {
		return rota.Refusef(rota.KindInvalid, "ordinal", "ordinal must be at least 1, got %d", c.Ordinal)
	}
	if c.Verb == rota.VerbProgress {
		c.Text = head(c.Text, limits.MaxNoteBytes)
	} else {
		c.Text = tail(c.Text, limits.MaxErrorBytes)
	}
	return nil
}

// checkChildren reads the nodes that a completion adds to its workflow.
func checkChildren(c *peer.LeaseCommand) (err error) {
	if len(c.Children) == 0 {
		return nil
	}
	if c.Verb != rota.VerbComplete {
		return rota.Refusef(rota.KindInvalid, "children", "children are only allowed with COMPLETE")
	}
	_, node, ok := rota.SplitNodeJobID(c.Job)
	if !ok {
		return rota.Refusef(rota.KindInvalid, "children",
			"job %.80q is not a node of a workflow: only such a job can have children", c.Job)
	}
	if c.Growth, err = words.GrowthFromWire(c.Children); err != nil {
		return err
	}
	c.Children = nil
	return c.Growth.CheckShape(node)
}
