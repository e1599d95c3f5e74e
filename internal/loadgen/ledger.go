package loadgen

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
)

// Ledger records a measurement: the answers that producers got for each job and what workers did with it. Losses and
// duplicates are calculated from it at the end, never assumed. All moments are nanoseconds since begin, plus one, so
// that zero is never.
type Ledger struct {
	prefix string
	begin  time.Time
	jobs   []jobRecord

	accepted, completed atomic.Int64
	// overlaps counts handlers that started while another one had the same job.
	overlaps atomic.Int64
	// errors counts calls and jobs that were refused or had no outcome, each time; strangers handled jobs that are not
	// of this run.
	errors, strangers atomic.Int64
	// refused counts the jobs that admission refused, each time; hintless those whose refusal had no delay; held those
	// that the client library refused itself because the delay of an earlier refusal had not passed.
	refused, hintless, held atomic.Int64
	// reruns counts handlers of jobs that had a handler before: after a lost lease.
	reruns atomic.Int64
}

type jobRecord struct {
	// planned is the scheduled start in open loop, otherwise the call's start.
	planned, answered, started, finished atomic.Int64
	running, completions                 atomic.Int32
	accepted, settled                    atomic.Bool
}

// newLedger returns the ledger of n jobs whose ids begin with prefix.
func newLedger(prefix string, n int) *Ledger {
	return &Ledger{prefix: prefix, begin: time.Now(), jobs: make([]jobRecord, n)}
}

// Completed returns how many jobs are known to be completed.
func (l *Ledger) Completed() int64 { return l.completed.Load() }

// Now returns the nanoseconds since begin, plus one.
func (l *Ledger) Now() int64 { return int64(time.Since(l.begin)) + 1 }

// id returns the id of the i-th job; index is its inverse, −1 for an id of another run.
func (l *Ledger) id(i int) rota.JobID {
	return rota.JobID(fmt.Sprintf("%s-%07d", l.prefix, i))
}

func (l *Ledger) index(id rota.JobID) int {
	digits, ok := strings.CutPrefix(string(id), l.prefix+"-")
	if !ok {
		return -1
	}
	i, err := strconv.Atoi(digits)
	if err != nil || i < 0 || i >= len(l.jobs) {
		return -1
	}
	return i
}

// plan records when job i should have been submitted.
func (l *Ledger) plan(i int, at int64) { l.jobs[i].planned.Store(at) }

// accept records that the cluster accepted job i.
func (l *Ledger) accept(i int) {
	if l.jobs[i].accepted.CompareAndSwap(false, true) {
		l.jobs[i].answered.Store(l.Now())
		l.accepted.Add(1)
	}
}

// refuse records that admission refused a number of jobs, and the delay that it set.
func (l *Ledger) refuse(jobs int, delay time.Duration) {
	l.refused.Add(int64(jobs))
	if delay <= 0 {
		l.hintless.Add(int64(jobs))
	}
}

// start records that a handler got the job, and counts an overlap.
func (l *Ledger) start(id rota.JobID) {
	i := l.index(id)
	if i < 0 {
		l.strangers.Add(1)
		return
	}
	if !l.jobs[i].started.CompareAndSwap(0, l.Now()) {
		l.reruns.Add(1)
	}
	if l.jobs[i].running.Add(1) > 1 {
		l.overlaps.Add(1)
	}
}

// stop records that the handler is done with the job, however it ended.
func (l *Ledger) stop(id rota.JobID) {
	if i := l.index(id); i >= 0 {
		l.jobs[i].running.Add(-1)
	}
}

// complete records that the cluster confirmed a completion of the job to a worker.
func (l *Ledger) complete(id rota.JobID) {
	if i := l.index(id); i >= 0 {
		l.jobs[i].completions.Add(1)
		l.settle(i)
	}
}

// settle records that job i is known to be completed, from any source, and reports whether this is new.
func (l *Ledger) settle(i int) bool {
	if !l.jobs[i].settled.CompareAndSwap(false, true) {
		return false
	}
	l.jobs[i].finished.Store(l.Now())
	l.completed.Add(1)
	return true
}

// submitted counts the jobs that were due: those that were sent, or are about to be.
func (l *Ledger) submitted() (n int) {
	for i := range l.jobs {
		if l.jobs[i].planned.Load() > 0 {
			n++
		}
	}
	return n
}

// open returns up to most accepted jobs whose completion is not known.
func (l *Ledger) open(most int) []int {
	var open []int
	for i := range l.jobs {
		if l.jobs[i].accepted.Load() && !l.jobs[i].settled.Load() {
			if open = append(open, i); len(open) == most {
				break
			}
		}
	}
	return open
}

// duplicated counts jobs completed more than once, and overlaps.
func (l *Ledger) duplicated() int64 {
	n := l.overlaps.Load()
	for i := range l.jobs {
		if l.jobs[i].completions.Load() > 1 {
			n++
		}
	}
	return n
}

// last returns the moment of the last completion, or now if there is none.
func (l *Ledger) last() time.Duration {
	last := int64(0)
	for i := range l.jobs {
		last = max(last, l.jobs[i].finished.Load())
	}
	return time.Duration(cmp.Or(last, l.Now()))
}

// FirstAnswer returns when the first job was accepted that was due after a moment; 0 if there is none yet.
func (l *Ledger) FirstAnswer(after int64) int64 {
	first := int64(0)
	for i := range l.jobs {
		j := &l.jobs[i]
		if at := j.answered.Load(); j.planned.Load() > after && at > 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// spans collects to − from of every job that has both, sorted.
func (l *Ledger) spans(from, to func(*jobRecord) *atomic.Int64, chosen func(i int) bool) []int64 {
	spans := make([]int64, 0, len(l.jobs))
	for i := range l.jobs {
		a, b := from(&l.jobs[i]).Load(), to(&l.jobs[i]).Load()
		if a > 0 && b > 0 && (chosen == nil || chosen(i)) {
			spans = append(spans, max(b-a, 0))
		}
	}
	slices.Sort(spans)
	return spans
}

func planned(j *jobRecord) *atomic.Int64  { return &j.planned }
func answered(j *jobRecord) *atomic.Int64 { return &j.answered }
func started(j *jobRecord) *atomic.Int64  { return &j.started }
func finished(j *jobRecord) *atomic.Int64 { return &j.finished }

// quantile returns the nearest-rank quantile of sorted nanoseconds, in milliseconds to the microsecond: the smallest
// value that at least q of all do not exceed. It is not an estimate: every value was kept.
func quantile(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	rank = min(max(rank, 0), len(sorted)-1)
	return RoundTo(float64(sorted[rank])/1e6, 1000)
}

// RoundTo rounds v to a number of parts of one.
func RoundTo(v, parts float64) float64 { return math.Round(v*parts) / parts }
