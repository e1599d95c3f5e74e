package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Anomaly is a promise that was broken.
type Anomaly struct {
	Checker string   `json:"checker"`
	Text    string   `json:"text"`
	IDs     []string `json:"ids,omitempty"`
	// At is the time in nanoseconds of the run; 0 if it is not a single moment.
	At int64 `json:"at,omitempty"`
	// Link is a file next to the report with details.
	Link string `json:"link,omitempty"`
}

// checker judges one promise.
type checker struct {
	name    string
	promise string
	check   func(v *view) []Anomaly
}

// checkers are all promises. A new one is a file and a line here.
var checkers = []checker{
	{"lost", "acknowledged submissions are there at the end; nothing is that was not asked for", checkLost},
	{"linear", "each job's life is one that a single queue could have lived", checkLinear},
	{"overlap", "no two workers believe at once that they hold a job", checkOverlap},
	{"leases", "a lease ends once; one that outlives its job holds what it held until then", checkLeases},
	{"token", "tokens grow with each lease of a job and are unique", checkToken},
	{"completion", "at most one completion of a job is accepted, and it stays", checkCompletion},
	{"revoked", "no call is accepted with a token whose revocation was acknowledged before", checkRevoked},
	{"repeat", "a repeated completion is answered the same; a forged one is refused", checkRepeat},
	{"expiry", "no lease of a live, connected worker ends without a reason", checkExpiry},
	{"blame", "no attempt is used up without a failure", checkBlame},
	{"digest", "all nodes have the same digest at the same index, invariants hold, backups are whole", checkDigest},
	{"clock", "the cluster clock never decreases and keeps its rate while nothing is broken", checkClock},
	{"events", "all nodes show the same events, no follower misses or repeats one, and they match the jobs' lives",
		checkEvents},
	{"workflows", "workflows run by their edges, each node completes once, all or nothing of them, and to their end",
		checkWorkflows},
	{"keys", "a key's rule bounds the jobs that run at once, and those of a sequence run in the order of submission",
		checkKeys},
	{"limits", "no job starts beyond the rest of its budget, whichever node leads", checkLimits},
	{"schedules", "each date of a schedule is decided once, whichever node leads, and each reported run exists",
		checkSchedules},
	{"webhooks", "each event that a webhook selects is delivered once, in the order of the events, whichever node leads",
		checkWebhooks},
	{"batches", "a batch's callback is submitted once, after all its jobs, and counts them as they ended",
		checkBatches},
	{"plans", "a plan continues whichever node leads, each job has its turn once, and its counts are right", checkPlans},
	{"gates", "a gate is opened once, by the signal that counts, or in time; each signal gets this answer", checkGates},
	{"uniques", "of a unique key one job lives at most, and every submission is answered by it", checkUniques},
	{"outcomes", "a failure counts, or does not, as its handler asked, and the next attempt waits for as long",
		checkOutcomes},
	{"job_logs", "what a handler logged is read whole from every node once its outcome was acknowledged", checkJobLogs},
	{"history", "every node shows the same ended jobs", checkHistory},
	{"audit", "every round is what the state at its height gives", checkAudit},
	{"logs", "all nodes' logs hold the same bytes at every committed index", checkLogs},
	{"death", "where a voter died for good the voters heal by themselves, and are never fewer than 3", checkDeath},
	{"recovery", "a recovered disk continues with every job that it held, greater tokens, and no earlier lease",
		checkRecovery},
	{"crash", "no node ends by itself, but for its own disk and with words; each ends on request", checkCrash},
	{"disk", "a leader whose disk hangs is succeeded within 20 s", checkDisk},
	{"liveness", "after healing: a leader and writes within 10 s, the queue empty within 60 s", checkLiveness},
	{"growth", "after the run the users of a node explain all its files and goroutines", checkGrowth},
}

// livenessCheckers judge whether something good happens in time; all others, whether something bad happens.
var livenessCheckers = []string{"liveness", "growth"}

// maxAnomalies bounds the reports of one checker.
const maxAnomalies = 25

// Judge runs all checkers on a history.
func Judge(h *History) *Verdict {
	v := newView(h)
	verdict := &Verdict{Seed: h.Seed, Faults: len(h.Faults), Network: h.Network, Anomalies: []Anomaly{},
		Undecided: []string{}, Liveness: livenessOf(h)}
	for _, c := range checkers {
		began := time.Now()
		found := c.check(v)
		v.took[c.name] = time.Since(began).Milliseconds()
		verdict.Violations += len(found)
		if slices.Contains(livenessCheckers, c.name) {
			verdict.Liveness.Violations += len(found)
		} else {
			verdict.Safety.Violations += len(found)
		}
		for i := range found {
			found[i].Checker = c.name
		}
		if len(found) > maxAnomalies {
			more := Anomaly{Checker: c.name, Text: fmt.Sprintf("and %d more of %s", len(found)-maxAnomalies, c.name)}
			found = append(found[:maxAnomalies:maxAnomalies], more)
		}
		verdict.Anomalies = append(verdict.Anomalies, found...)
	}
	verdict.Operations = countOperations(h)
	verdict.Undecided = append(verdict.Undecided, v.undecided...)
	if h.Network == NetworkOfContainers {
		verdict.Undecided = append(verdict.Undecided, h.LeftOut)
	} else if h.Network != "namespaces" {
		verdict.Undecided = append(verdict.Undecided, "no partitions were made: "+h.Network+" cannot be cut")
	}
	verdict.Safety.Undecided = len(v.undecided)
	verdict.Figures, verdict.pictures = figures(v), v.drawings
	return verdict
}

// JudgeOnly runs some checkers on a history, by their names: a history from elsewhere may lack the data that the others
// need.
func JudgeOnly(h *History, names ...string) (found []Anomaly) {
	v := newView(h)
	for _, c := range checkers {
		if slices.Contains(names, c.name) {
			found = append(found, c.check(v)...)
		}
	}
	return found
}

// countOperations counts the requests and grants of users and workers.
func countOperations(h *History) int {
	n := 0
	for i := range h.Ops {
		switch h.Ops[i].Func {
		case OpEnd, OpLost, OpConnect, OpDisconnect:
		default:
			n++
		}
	}
	return n
}

// view is a history prepared for checkers.
type view struct {
	*History
	// jobs are the operations on each job by invocation; ids are in order.
	jobs map[string][]*Op
	ids  []string
	// attempts are the actions of honest workers, by process and lease.
	attempts []*attempt
	// lives are the changes of each process, in order.
	lives map[string][]Change
	// queue is each job's queue, if the final list has it.
	queue     map[string]string
	final     map[string]*FinalJob
	undecided []string
	// suspensions are those by an operator, by worker; suspended are the leases that they ended, with their worker.
	suspensions map[string][]*Op
	suspended   map[string]string
	leases      *leaseBook
	// flows are the operations on each workflow, in the order kept.
	flows map[string][]*Op
	// gates are the nodes that are gates, planned the jobs that plans are for, both by job.
	gates   map[string]*NodeFacts
	planned map[string]bool
	// figures are the checkers' figures, took the time of each in milliseconds; drawings are stored with the report.
	figures  map[string]any
	took     map[string]int64
	drawings []picture
	// connects are the operations that connected each worker process, in order.
	connects map[string][]*Op
}

// attempt is one lease in one worker process.
type attempt struct {
	process, hand, job, lease string
	start, end, lost, report  *Op
}

type leaseKey struct{ process, lease string }

func newView(h *History) *view {
	v := &view{History: h, jobs: make(map[string][]*Op), lives: make(map[string][]Change),
		queue: make(map[string]string), final: make(map[string]*FinalJob), figures: make(map[string]any),
		took: make(map[string]int64), connects: make(map[string][]*Op)}
	for i := range h.Final {
		v.final[h.Final[i].ID] = &h.Final[i]
		v.queue[h.Final[i].ID] = h.Final[i].Queue
	}
	for _, c := range h.Changes {
		v.lives[c.Who] = append(v.lives[c.Who], c)
	}
	byLease := make(map[leaseKey]*attempt)
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Func == OpConnect {
			v.connects[op.Process] = append(v.connects[op.Process], op)
		}
		if op.Job == "" {
			continue
		}
		v.jobs[op.Job] = append(v.jobs[op.Job], op)
		v.keep(byLease, op)
	}
	v.settle()
	v.readFlows()
	v.readRuns()
	v.readDeliveries()
	v.readCallbacks()
	v.readPlans()
	v.readLeases()
	v.readSuspensions()
	for id, ops := range v.jobs {
		v.ids = append(v.ids, id)
		slices.SortStableFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
	}
	slices.Sort(v.ids)
	return v
}

// keep files a worker's observation under its lease.
func (v *view) keep(byLease map[leaseKey]*attempt, op *Op) {
	if op.Func != OpStart && op.Func != OpEnd && op.Func != OpLost && op.Func != OpReport {
		return
	}
	k := leaseKey{op.Process, op.Lease}
	a := byLease[k]
	if a == nil {
		a = &attempt{process: op.Process, hand: handOf(op.Process), job: op.Job, lease: op.Lease}
		byLease[k] = a
		v.attempts = append(v.attempts, a)
	}
	switch op.Func {
	case OpStart:
		a.start = op
	case OpEnd:
		a.end = op
	case OpLost:
		a.lost = op
	case OpReport:
		a.report = op
	}
}

// settle corrects reports of leases that were lost before (the library gives those back, regardless of the handler's
// result), and adds those that never got an answer: their outcome is unknown.
func (v *view) settle() {
	for _, a := range v.attempts {
		switch {
		case a.report != nil && a.lost != nil && a.end != nil:
			a.report.Did = DidDecline
		case a.report == nil && a.lost == nil && a.end != nil && a.end.Did != DidLose:
			op := *a.end
			op.Func, op.Invoke, op.Return, op.Outcome = OpReport, a.end.Return, never, Unknown
			v.jobs[op.Job] = append(v.jobs[op.Job], &op)
		}
	}
}

// handOf returns the slot among the workers of a process: w2 of w2.7.
func handOf(process string) string {
	for i := range process {
		if process[i] == '.' {
			return process[:i]
		}
	}
	return process
}

// span is a stretch of time.
type span struct{ from, to int64 }

// away returns when a process was paused or down.
func (v *view) away(who string) (spans []span) {
	from := int64(-1)
	for _, c := range v.lives[who] {
		switch {
		case c.State == IsUp && from >= 0:
			spans = append(spans, span{from, c.At})
			from = -1
		case c.State != IsUp && from < 0:
			from = c.At
		}
	}
	if from >= 0 {
		spans = append(spans, span{from, never})
	}
	return spans
}

// paused returns when a process was stopped in mid-step.
func (v *view) paused(who string) (spans []span) {
	from := int64(-1)
	for _, c := range v.lives[who] {
		if from >= 0 && c.State != IsPaused {
			spans = append(spans, span{from, c.At})
			from = -1
		}
		if c.State == IsPaused && from < 0 {
			from = c.At
		}
	}
	if from >= 0 {
		spans = append(spans, span{from, never})
	}
	return spans
}

// downAfter returns the first end of a process after a moment.
func (v *view) downAfter(who string, at int64) int64 {
	for _, c := range v.lives[who] {
		if c.At > at && (c.State == IsDown || c.State == IsGone) {
			return c.At
		}
	}
	return v.End
}

func seconds(at int64) string { return fmt.Sprintf("%.3f s", float64(at)/1e9) }
