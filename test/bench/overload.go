package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// overloadPlan is the load that is offered, and the limits that must hold.
type overloadPlan struct {
	cap, times, memory int
}

// The load next to the overload: handlers that keep their jobs for several leases.
const (
	heldJobs    = 64
	heldLeaseMs = 5_000
	heldFor     = 4 * heldLeaseMs * time.Millisecond
	// overloadQueue and heldQueue are the queues of both.
	overloadQueue, heldQueue = "overload", "held"
	// keepsOf is the share of the peak that an overloaded cluster must still achieve.
	keepsOf = 0.9
	// offersOf is the share of the planned rate that must actually have been offered.
	offersOf = 0.9
	// overloadProducers are enough calls in flight for a load that does not slow down.
	overloadProducers = 64
)

// overloaded is the observed result of an overload.
type overloaded struct {
	pinned      bool
	cap, memory int
	peak        float64
	rate        int
	load, held  result
	rss         float64
	equal       bool
}

// measureOverload finds the peak, offers several times that, and judges.
func (p *plan) measureOverload(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	pin, load := p.apart()
	o := overloaded{pinned: pin != nil, cap: p.overload.cap, memory: p.overload.memory}
	if err := p.cluster(ctx, p.rota, pin, func(s *servers) error {
		return p.overloadThem(ctx, s, load, &o)
	}); err != nil {
		return err
	}
	text, holds := o.verdict()
	if err := p.publish("bench-overload", m.markdown()+text); err != nil {
		return err
	}
	if !holds {
		return fmt.Errorf("an invariant of overload does not hold")
	}
	return nil
}

// apart returns the beginnings of command lines with which all servers share the first processor and the load has the
// others; nothing where that is not possible.
func (p *plan) apart() (servers, load []string) {
	taskset, err := exec.LookPath("taskset")
	if err != nil || runtime.NumCPU() < 2 {
		p.say("servers and load share all processors: want taskset and two processors")
		return nil, nil
	}
	return []string{taskset, "-c", "0"}, []string{taskset, "-c", fmt.Sprintf("1-%d", runtime.NumCPU()-1)}
}

func (p *plan) overloadThem(ctx context.Context, s *servers, load []string, o *overloaded) error {
	for _, q := range [][]string{{overloadQueue, "--set", fmt.Sprintf("queue_cap=%d", o.cap)},
		{heldQueue, "--set", fmt.Sprintf("lease_ms=%d", heldLeaseMs)}} {
		args := append([]string{"set", q[0], "--preset", "standard"}, q[1:]...)
		if err := run(ctx, time.Minute, nil, p.rota, s.withAddr("queue", args)...); err != nil {
			return err
		}
	}
	bench := func(into *result, args ...string) error {
		line := append(append(append([]string(nil), load...), p.rota),
			s.withAddr("bench", append([]string{"jobs"}, args...))...)
		return run(ctx, maxMeasure, into, line[0], line[1:]...)
	}
	payload := strconv.Itoa(p.payload)
	fast := func(what string, jobs int) (float64, error) {
		var r result
		err := bench(&r, "--queue", overloadQueue, "--jobs", strconv.Itoa(jobs), "--payload", payload)
		if err == nil {
			p.say("as fast as it goes, %s: %d jobs, %.0f jobs/s", what, jobs, r.JobsPerS)
		}
		return r.JobsPerS, err
	}
	// Servers that remember little have a peak that they lose by working.
	warm, err := fast("for warming up", max(p.jobs, p.soak.warm))
	if err != nil {
		return err
	}
	// The peak is measured for as long as the overload is, once before it and once after: the best of short rounds is a
	// machine's luck.
	seconds := max(p.seconds, int(heldFor.Seconds()))
	count := max(p.jobs, int(warm)*seconds)
	before, err := fast("before", count)
	if err != nil {
		return err
	}
	o.peak = before
	o.rate = int(float64(p.overload.times) * o.peak)
	jobs := o.rate * seconds
	p.say("offering %d jobs/s, %d jobs", o.rate, jobs)
	stop := s.watch(ctx, func(all []sample) {
		for _, one := range all {
			o.rss = max(o.rss, one[metricRSS])
		}
	})
	var wait sync.WaitGroup
	var failed error
	wait.Go(func() {
		failed = bench(&o.held, "--queue", heldQueue, "--jobs", strconv.Itoa(heldJobs), "--workers", "2", "--slots",
			strconv.Itoa(heldJobs/2), "--hold", heldFor.String())
	})
	err = bench(&o.load, "--queue", overloadQueue, "--jobs", strconv.Itoa(jobs), "--rate", strconv.Itoa(o.rate),
		"--drop", "--producers", strconv.Itoa(overloadProducers), "--payload", payload)
	wait.Wait()
	stop()
	// A bench ends with a failure if jobs were lost: the verdict handles that.
	for _, one := range []struct {
		err error
		r   *result
	}{{err, &o.load}, {failed, &o.held}} {
		if one.err != nil && one.r.Jobs == 0 {
			return one.err
		}
	}
	after, err := fast("after", count)
	if err != nil {
		return err
	}
	o.peak = max(before, after)
	var verified struct {
		Equal bool `json:"equal"`
	}
	if err := run(ctx, time.Minute, &verified, p.rota, s.withAddr("operator",
		[]string{"verify", "-o", "json"})...); err != nil {
		return err
	}
	o.equal = verified.Equal
	return nil
}

// watch reads all servers every second until stop is called; a reading that fails is left out, as an overloaded server
// may have no time for it.
func (s *servers) watch(ctx context.Context, see func([]sample)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if all, err := s.all(ctx); err == nil {
				see(all)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// verdict returns the table of the limits, and whether all hold.
func (o *overloaded) verdict() (text string, holds bool) {
	offered := float64(o.load.Jobs) / max(o.load.SubmitSeconds, 0.001)
	rows := []struct {
		must, saw string
		holds     bool
	}{
		{fmt.Sprintf("%d jobs/s are offered, %d %% of that at least", o.rate, int(offersOf*100)),
			fmt.Sprintf("%.0f", offered),
			offered >= offersOf*float64(o.rate)},
		{fmt.Sprintf("admission refuses (queue_cap %s)", thousands(o.cap)),
			fmt.Sprintf("%d of %d, %d of them by the client "+
				"library until a delay had passed", o.load.Refused, o.load.Jobs, o.load.RefusedHeld),
			o.load.Refused > 0},
		{"every refusal names a delay", fmt.Sprintf("%d do not", o.load.RefusedHintless), o.load.RefusedHintless == 0},
		{"nothing accepted is lost or done twice", fmt.Sprintf("%d accepted, %d lost, %d twice", o.load.Accepted,
			o.load.Lost+o.held.Lost, o.load.Duplicated+o.held.Duplicated),
			o.load.Lost+o.load.Duplicated+o.held.Lost+o.held.Duplicated == 0},
		{fmt.Sprintf("no lease expires: %d jobs are held for %s with leases of %d s", heldJobs, heldFor,
			heldLeaseMs/1000),
			fmt.Sprintf("%d handlers beyond a job's first, %d of %d completed", o.held.Reruns+o.load.Reruns,
				o.held.Completed, heldJobs),
			o.held.Reruns+o.load.Reruns == 0 && o.held.Completed == heldJobs},
		{fmt.Sprintf("no server takes more than %d MiB", o.memory), fmt.Sprintf("%.0f MiB", o.rss/(1<<20)),
			o.rss <= float64(o.memory)*(1<<20)},
		{fmt.Sprintf("throughput stays at %.1f of the peak of %.0f jobs/s, measured for as long before and after",
			keepsOf, o.peak),
			fmt.Sprintf("%.0f jobs/s, %.2f", o.load.JobsPerS, o.load.JobsPerS/max(o.peak, 1)),
			o.load.JobsPerS >= keepsOf*o.peak}, {"digests of all nodes are equal", fmt.Sprint(o.equal), o.equal},
	}
	var b strings.Builder
	b.WriteString("| what must hold | seen | |\n|---|---|---|\n")
	holds = true
	for _, r := range rows {
		word := "holds"
		if !r.holds {
			word, holds = "**does not hold**", false
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.must, r.saw, word)
	}
	where := "Servers on one processor, load on the others."
	if !o.pinned {
		where = "Servers and load share all processors."
	}
	return b.String() + "\n" + where + "\n", holds
}
