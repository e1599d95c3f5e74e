package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// expected reads a job and returns how it differs from the scenario, for now or for good.
func (r *run) expected(ctx context.Context, id rota.JobID, e *expect) error {
	job, err := r.cluster.client.Job(ctx, id)
	if err != nil {
		return err
	}
	return r.fits(ctx, &job, e)
}

// fits compares a job with the scenario.
func (r *run) fits(ctx context.Context, job *rota.Job, e *expect) error {
	id := job.ID
	if job.State.String() != e.State {
		err := fmt.Errorf("job %s is %s (%s, %q, %d attempts), wanted is %s", id, job.State, job.Reason, job.Error,
			len(job.Attempts), e.State)
		if job.State.Terminal() {
			return rig.Final(err)
		}
		return err
	}
	var wrong []string
	differ := func(what string, have, want any) {
		wrong = append(wrong, fmt.Sprintf("%s %v, wanted is %v", what, have, want))
	}
	var ends []string
	for _, a := range job.Attempts {
		ends = append(ends, a.End.String())
	}
	if e.Attempts > 0 && len(job.Attempts) != e.Attempts {
		differ("attempts", fmt.Sprint(len(job.Attempts), " ", ends), e.Attempts)
	}
	if e.Ends != nil && !slices.Equal(ends, e.Ends) {
		differ("ends", ends, e.Ends)
	}
	if e.Output != nil {
		var have any
		if err := json.Unmarshal(job.Output, &have); err != nil || !same(have, e.Output) {
			differ("output", string(job.Output), e.Output)
		}
	}
	if want, err := base64.StdEncoding.DecodeString(e.Bytes); err != nil || e.Bytes != "" &&
		!bytes.Equal(want, job.Output) {
		differ("output", base64.StdEncoding.EncodeToString(job.Output), e.Bytes)
	}
	if !strings.Contains(job.Error, e.Error) {
		differ("error", job.Error, e.Error)
	}
	if have := fmt.Sprint(job.Progress, " ", job.ProgressNote); e.Progress != "" && have != e.Progress {
		differ("progress", have, e.Progress)
	}
	if n := len(job.Attempts); e.Worker != "" && (n == 0 || string(job.Attempts[n-1].Worker) != r.prefix+e.Worker) {
		differ("worker of", job.Attempts, e.Worker)
	}
	if e.Log != "" {
		log, err := client.JobLog(ctx, r.cluster.client, rota.LogOf{Job: id})
		if err != nil {
			return err
		}
		var text strings.Builder
		for _, part := range log.Parts {
			text.Write(part.Text)
		}
		if !strings.Contains(text.String(), e.Log) {
			differ("log", text.String(), e.Log)
		}
	}
	if wrong == nil {
		return nil
	}
	err := fmt.Errorf("job %s: %s", id, strings.Join(wrong, "; "))
	if job.State.Terminal() && e.Log == "" { // a log follows its attempt's end
		return rig.Final(err)
	}
	return err
}

// judge checks a finished life for rules that hold in every scenario: the cluster accepted at most one completion of
// each job, of an attempt that a handler of this driver ran; the tokens of a job grow; two handlers never ran one job
// at the same time unless the first had learned that its lease was lost.
func (r *run) judge(ctx context.Context) error {
	if err := r.whole(); err != nil {
		return err
	}
	last := rota.NewJobSpec("echo", nil) // its events come after all others
	last.ID, last.Queue, last.Delay = rota.JobID(r.prefix+"last"), rota.QueueName(r.queue()), time.Hour
	if _, err := client.EachOutcome(r.cluster.client.Submit(ctx, last)); err != nil {
		return err
	}
	events, err := r.cluster.eventsOf(ctx, r.prefix, last.ID)
	if err != nil {
		return err
	}
	completed := map[string]int{}
	for _, e := range events {
		if e.Kind == rota.EventJobCompleted {
			completed[string(e.Job)]++
		}
	}
	reports := r.reports()
	for _, id := range sorted(completed) {
		if completed[id] != 1 {
			return fmt.Errorf("%d completions of job %s were accepted", completed[id], id)
		}
		if len(reports[id]) == 0 {
			return fmt.Errorf("job %s is COMPLETED, and no handler reported it", id)
		}
	}
	for _, id := range sorted(reports) {
		if err := orderly(reports[id]); err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	return nil
}

// orderly checks the handlers' reports of one job, in the order of the reports.
func orderly(reports []answer) error {
	var running, newest rota.Token
	for _, a := range reports {
		var t rota.Token
		if _, err := fmt.Sscanf(a.Token, "%d.%d", &t.Incarnation, &t.Counter); err != nil {
			return fmt.Errorf("a token is %q: %w", a.Token, err)
		}
		switch a.On {
		case "started":
			if !running.IsZero() {
				return fmt.Errorf("a handler began under token %s while one ran under %s", t, running)
			}
			if t.Compare(newest) <= 0 {
				return fmt.Errorf("token %s came after %s", t, newest)
			}
			running, newest = t, t
		case "lost", "ended":
			if t == running {
				running = rota.Token{}
			}
		default:
			return fmt.Errorf("a driver reported %q", a.On)
		}
	}
	return nil
}

// jsonOf encodes a value of a scenario.
func jsonOf(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}

// same compares two values by their JSON.
func same(a, b any) bool {
	plain := func(v any) (x any) {
		text, err := json.Marshal(v)
		if err != nil || json.Unmarshal(text, &x) != nil {
			return v
		}
		return x
	}
	return reflect.DeepEqual(plain(a), plain(b))
}
