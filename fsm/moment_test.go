package fsm

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// behind is a cluster that was stopped for a while: its clock is 80.5 s behind the date.
func behind(t *testing.T) *bench {
	b := newBench(t)
	b.walls = []int64{startClock + 80_500}
	b.entry()
	b.walls = nil
	return b
}

// stopped leaves the cluster without a leader for an hour: the date continues, the clock does not.
func (b *bench) stopped() {
	b.walls = []int64{int64(b.Header.Date()) + 3_600_000}
	b.lead()
	b.walls = nil
}

// TestDatesWhileTheClockIsBehind runs a job through two attempts on a cluster whose clock is behind and falls back
// further: past times have the date of that time, future times are as far from now as by the clock (SPEC §16.8).
func TestDatesWhileTheClockIsBehind(t *testing.T) {
	t.Parallel()
	b := behind(t)
	is := func(what string, got, want rota.Moment) {
		t.Helper()
		if got != want || want.IsZero() {
			t.Errorf("%s is %d by the clock, %s; want %d, %s", what, got.Clock, got.Date, want.Clock, want.Date)
		}
	}
	var text struct {
		Submitted int64  `json:"submitted_ms"`
		At        string `json:"submitted_at"`
	}
	b.submit("j", func(s *rota.JobSpec) { s.Delay = 2 * time.Second })
	submitted := b.Header.Now()
	j := b.state("j", rota.JobDelayed)
	if shown, err := json.Marshal(j); err != nil || json.Unmarshal(shown, &text) != nil ||
		text.Submitted != startClock+80_500 || text.At != "2023-11-14T22:14:40.500Z" {
		t.Fatalf("a job of 22:14:40.5 has %+v, %v", text, err)
	}
	is("due", j.Due, b.Header.Now().At(submitted.Clock+2_000))
	b.stopped()
	is("due after a stop", b.state("j", rota.JobDelayed).Due, b.Header.Now().At(submitted.Clock+2_000))
	b.pass(2_000)
	enqueued := b.Header.Now()
	b.worker("w", 1)
	registered := b.Header.Now()
	b.stopped()
	l := b.match()["j"]
	leased := b.Header.Now()
	b.pass(500)
	b.ok(verb(rota.VerbAck, l))
	acked := b.Header.Now()
	b.stopped()
	j = b.state("j", rota.JobRunning)
	is("submitted", j.Submitted, submitted)
	is("enqueued", j.Enqueued, enqueued)
	is("first lease", j.FirstLease, leased)
	is("lease started", j.Lease.Started, leased)
	is("lease acknowledged", j.Lease.Acked, acked)
	is("deadline", j.Lease.Deadline, b.Header.Now().At(leased.Clock+60_000))
	is("renew by", j.Lease.RenewBy, b.Header.Now().At(j.Lease.RenewBy.Clock))
	is("ack by", j.Lease.AckBy, b.Header.Now().At(leased.Clock+5_000))
	w, _ := b.View.Worker("w")
	is("status since", w.StatusSince, registered)
	is("deadline of its lease", w.Leases[0].Deadline, j.Lease.Deadline)
	b.ok(verb(rota.VerbFail, l))
	ended := b.Header.Now()
	b.stopped()
	j = b.state("j", rota.JobDelayed)
	is("attempt started", j.Attempts[0].Started, leased)
	is("attempt acknowledged", j.Attempts[0].Acked, acked)
	is("attempt ended", j.Attempts[0].Ended, ended)
	b.pass(j.Due.Clock - b.Header.Clock)
	l = b.match()["j"]
	b.ok(verb(rota.VerbComplete, l))
	finished := b.Header.Now()
	b.stopped()
	j = b.state("j", rota.JobCompleted)
	is("finished", j.Finished, finished)
	is("submitted of an ended job", j.Submitted, submitted)
	is("enqueued of an ended job", j.Enqueued, enqueued)
	is("first lease of an ended job", j.FirstLease, leased)
	b.View.Archived([]uint64{b.ended.tombs.Get("j").Seq})
	tomb, _ := b.Machine.View.Job("j")
	is("submitted by the tombstone", tomb.Submitted, submitted)
	is("finished by the tombstone", tomb.Finished, finished)
}

// TestDatesOfEvents checks that an event's deadline is dated by the event's own clock and date.
func TestDatesOfEvents(t *testing.T) {
	t.Parallel()
	b := behind(t)
	b.worker("w", 1)
	b.submit("j")
	l := b.match()["j"]
	events := b.entry(verb(rota.VerbFail, l)).Events
	seen := 0
	for _, e := range append(events, b.pass(0)...) {
		if e.Kind != rota.EventJobRetryScheduled {
			continue
		}
		seen++
		want := rota.Moment{Clock: e.Clock, Date: e.Date}.At(e.Deadline.Clock)
		var payload struct {
			Ms    rota.Date  `json:"due_ms"`
			At    string     `json:"due_at"`
			Clock rota.Clock `json:"due_clock_ms"`
		}
		if err := json.Unmarshal([]byte(e.Payload), &payload); err != nil || e.Deadline != want ||
			payload.Ms != want.Date ||
			payload.At != want.Date.String() || payload.Clock != want.Clock ||
			want.Date-rota.Date(want.Clock) != 80_500 {
			t.Errorf("event %+v, payload %+v, %v; want %v", e, payload, err, want)
		}
	}
	if seen != 1 {
		t.Fatalf("%d retries were scheduled", seen)
	}
}
