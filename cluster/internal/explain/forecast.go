package explain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/verbs"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/foresight/eta"
)

const (
	// etaAsking bounds the callers of forecasts: one runs, the others wait.
	etaAsking = 8
	// MaxPerCaller bounds the forecasts of one caller at a time.
	MaxPerCaller = 2
	// ranKept is how long the run times read from ended jobs are reused; maxRan is how many are read per queue, and of
	// all queues.
	ranKept = 10 * time.Second
	maxRan  = 500
	// maxNoted bounds the forecasts kept for comparison with the actual start. While that many wait for it, no others
	// are recorded, because dropping the oldest would mean learning only from short waits. maxSettled is how many are
	// looked up in the archive at a time.
	maxNoted, maxSettled = 1_000, 32
)

// forecaster predicts when jobs should start (SPEC §29).
type forecaster struct {
	n *verbs.Host
	// Turn has room for one caller, the one that holds simulated states in memory in addition to the current one.
	Turn chan struct{}

	Mu sync.Mutex
	// asking counts the running and waiting callers by principal; All is their total.
	asking map[rota.Principal]int
	All    int

	// The fields below belong to the caller that has the turn. Errors records how far off the forecasts of this process
	// were.
	Errors *eta.Errors
	noted  []notedForecast
	Pasts  map[rota.QueueName]readPast
}

type notedForecast struct {
	eta.Noted
	at rota.Clock
}

type readPast struct {
	*eta.Past
	read time.Duration
}

func newForecaster(n *verbs.Host) *forecaster {
	return &forecaster{n: n, Turn: make(chan struct{}, 1), asking: make(map[rota.Principal]int),
		Errors: eta.NewErrors(),
		Pasts:  make(map[rota.QueueName]readPast)}
}

// Enter counts a caller, and waits for its turn.
func (fc *forecaster) Enter(ctx context.Context) (leave func(), err error) {
	c, _ := ctx.Value(access.CallerKey{}).(access.Caller)
	fc.Mu.Lock()
	full := fc.All >= etaAsking || fc.asking[c.Actor] >= MaxPerCaller
	if !full {
		fc.All++
		fc.asking[c.Actor]++
	}
	fc.Mu.Unlock()
	if full {
		e := rota.Refusef(rota.KindExhausted, "eta",
			"node %s forecasts for %d callers at a time, %d questions of one: try again, or ask another node",
			fc.n.Node, etaAsking, MaxPerCaller)
		e.RetryAfter = time.Second
		return nil, e
	}
	out := func() {
		fc.Mu.Lock()
		defer fc.Mu.Unlock()
		fc.All--
		if fc.asking[c.Actor]--; fc.asking[c.Actor] == 0 {
			delete(fc.asking, c.Actor)
		}
	}
	select {
	case fc.Turn <- struct{}{}:
		return func() { <-fc.Turn; out() }, nil
	case <-ctx.Done():
		out()
		return nil, fault.Deadline(ctx, "waiting for others that are forecast for")
	}
}

// forecast simulates the future and adds the result to x.
func (fc *forecaster) forecast(ctx context.Context, x *rota.ETA, why *rota.Explanation, rd *access.Reader) error {
	leave, err := fc.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var frozen *fsm.Frozen
	var queue rota.QueueName
	if err := fc.n.Replica.Freezing(func(m *fsm.Machine) {
		frozen = m.Freeze()
		_, queue, _ = m.PlaceOfJob(x.Job)
	}); err != nil {
		return err
	}
	info := frozen.Info()
	x.Index, x.Clock, x.Date = info.Index, info.Clock, info.Date
	past, err := fc.past(ctx, queue)
	if err != nil {
		return err
	}
	fc.settle(ctx)
	f, err := eta.Ask(ctx, frozen, x.Job, past)
	switch {
	case err != nil && ctx.Err() != nil:
		return fault.Deadline(ctx, "forecasting")
	case err != nil:
		if kind := rota.KindOf(err); kind == rota.KindInternal {
			fc.n.Log.Error("a job's start could not be forecast", "job", x.Job, "err", err)
		}
		return err
	}
	fc.basis(x, f, past, queue, rd)
	if f.Never {
		x.Reasons, x.WouldRun = why.Reasons, why.WouldRun
		return nil
	}
	i := fc.Errors.Of(f.Raw)
	x.Earliest, x.Expected, x.Latest = x.Date+rota.Date(i.Earliest), x.Date+rota.Date(i.Expected), x.Date+rota.Date(
		i.Latest)
	x.HangsOn = hangs(f.Hangs, rd)
	fc.note(x, f)
	return nil
}

// basis describes the data that a forecast is based on. Its figures count all jobs, so they are shown only to callers
// that may read everything; other callers get what they may read.
func (fc *forecaster) basis(x *rota.ETA, f *eta.Forecast, past *eta.Past, queue rota.QueueName, rd *access.Reader) {
	say := func(format string, args ...any) { x.Basis = append(x.Basis, fmt.Sprintf(format, args...)) }
	guessed := int64(0)
	for of, n := range f.Guessed {
		if rd.Reads(of.Tenant, of.Queue) {
			guessed += n
		}
	}
	switch n := past.Runs(); {
	case !rd.ReadsAll():
		say("run times are those of jobs that completed, else estimates; jobs that you may not read count, and are not listed")
	case n > 0:
		say("run times are those of the newest %d jobs that completed", n)
	default:
		say("no job of queue %s has completed that is known here, where the last seconds may be missing: run times are estimates",
			queue)
	}
	if guessed > 0 {
		say("nothing is known of how long %d of the jobs before it take: a minute, or as long again, is assumed",
			guessed)
	}
	switch {
	case f.Beyond && rd.ReadsAll():
		say("%d pending jobs were left out: the pace of those before them is assumed to continue", f.Cut)
	case f.Beyond:
		say("pending jobs were left out: the pace of those before them is assumed to continue")
	}
	if fc.Errors.Learned > 0 && !f.Never && rd.ReadsAll() {
		say("%d forecasts of this node were held against what became of them", fc.Errors.Learned)
	}
}

// hangs lists the entries that a caller may read.
func hangs(all []eta.Hang, rd *access.Reader) (list []rota.HangsOn) {
	names := rd.Has(rota.RightStatus, access.Everything, access.Everything)
	for _, h := range all {
		if !rd.Reads(h.Tenant, h.Queue) {
			continue
		}
		on := rota.HangsOn{Jobs: h.Jobs, Running: h.Worker != "", Tenant: h.Tenant}
		if names {
			on.Worker = h.Worker
		}
		at := slices.IndexFunc(list, func(o rota.HangsOn) bool {
			return o.Tenant == on.Tenant && o.Running == on.Running && o.Worker == on.Worker
		})
		if at >= 0 {
			list[at].Jobs += on.Jobs
		} else if len(list) < hangsShown {
			list = append(list, on)
		}
	}
	return list
}

// hangsShown bounds the entries in an answer.
const hangsShown = 20

// past returns how long jobs took recently: those of a queue, and all.
func (fc *forecaster) past(ctx context.Context, queue rota.QueueName) (*eta.Past, error) {
	now := fc.n.SinceBoot()
	if p, ok := fc.Pasts[queue]; ok && now-p.read < ranKept {
		return p.Past, nil
	}
	p := eta.NewPast()
	for _, f := range []rota.JobFilter{{State: rota.JobCompleted, Limit: maxRan},
		{State: rota.JobCompleted, Limit: maxRan, Queue: queue}} {
		page, err := fc.n.Archive.List(ctx, f, 0, true, nil)
		if err != nil {
			return nil, err
		}
		for i := range slices.Backward(page.Jobs) { // the newest last
			j := &page.Jobs[i]
			if ran, ok := eta.RanOf(j); ok && (f.Queue != "" || j.Queue != queue) {
				p.Add(ran)
			}
		}
	}
	for of, old := range fc.Pasts {
		if now-old.read >= ranKept {
			delete(fc.Pasts, of)
		}
	}
	if p.Runs() > 0 { // reading none costs nothing, and the first are in progress
		fc.Pasts[queue] = readPast{p, now}
	}
	return p, nil
}

// note keeps a forecast, and those of other jobs that resulted from it, until the outcome is known.
func (fc *forecaster) note(x *rota.ETA, f *eta.Forecast) {
	for _, o := range append(f.Others, eta.Noted{Job: x.Job, Raw: f.Raw}) {
		if len(fc.noted) < maxNoted && !slices.ContainsFunc(fc.noted,
			func(n notedForecast) bool { return n.Job == o.Job && x.Clock-n.at < etaAgain }) {
			fc.noted = append(fc.noted, notedForecast{o, x.Clock})
		}
	}
}

// etaAgain is how long, in ms, only one forecast per job is recorded: polling every second teaches nothing more.
const etaAgain = 60_000

// settle compares forecasts with their outcome.
func (fc *forecaster) settle(ctx context.Context) {
	var gone []notedForecast
	open := fc.noted[:0]
	_ = fc.n.Replica.View(func(s *fsm.View) {
		now := s.Head().Clock
		for _, n := range fc.noted {
			j, live := s.Job(n.Job)
			switch {
			case !live && s.JobState(n.Job) != rota.JobNone:
				gone = append(gone, n)
			case !live: // deleted, or a node whose parents run: not known to have started
				if now-n.at < rota.Clock(fc.Errors.Of(n.Raw).Latest) {
					open = append(open, n)
				}
			case !j.FirstLease.IsZero():
				fc.learn(n, j.FirstLease.Clock)
			case !fc.Errors.Settle(n.Raw, int64(now-n.at), -1):
				open = append(open, n)
			}
		}
	})
	looked := min(len(gone), maxSettled)
	fc.noted = append(open, gone[looked:]...)
	for _, n := range gone[:looked] {
		if j, ok, err := fc.n.Archive.Job(ctx, n.Job); err == nil && ok && !j.FirstLease.IsZero() {
			fc.learn(n, j.FirstLease.Clock)
		}
	}
}

func (fc *forecaster) learn(n notedForecast, started rota.Clock) {
	if started >= n.at {
		fc.Errors.Learn(n.Raw, int64(started-n.at))
	}
}
