package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// fault is what happens in a run.
type fault string

const (
	noFault     fault = "none"
	serverFault fault = "server"
	workerFault fault = "worker"
	clockFault  fault = "clock"
	cutFault    fault = "cut"
)

var faults = []fault{noFault, serverFault, workerFault, clockFault, cutFault}

const (
	// maxReady limits the start of servers and clients.
	maxReady = 90 * time.Second
	// warm is the part of a run before the calm part, settle the time from the end of a fault to the measured part.
	warm, settle = 10 * time.Second, 10 * time.Second
	// down is how long a killed server or worker stays down.
	down = 2 * time.Second
	// cutTime is how long a worker is cut off: 10 s more than the longest time after which a system here gives the work
	// of a silent worker to another (40 s). Held calls begin holdBefore the cut and last heldTime.
	cutTime, holdBefore, heldTime = 50 * time.Second, 5 * time.Second, 70 * time.Second
	// maxDrain limits the wait for the last jobs. A job counts as lost if no job was called for the first time for
	// maxQuiet, which is longer than any system here keeps the work of a silent worker, but for those with a longer holds.
	maxDrain, maxQuiet = 75 * time.Second, 65 * time.Second
	// feedEvery is how often the backlog is topped up.
	feedEvery = 50 * time.Millisecond
	maxStop   = 15 * time.Second
)

// run is one run of one system under one fault.
type run struct {
	*bench
	of       system
	load     load
	fault    fault
	provider *provider
	servers  servers
	dir      string
	proxies  map[string][]*proxy
	workers  map[string]*rig.Process
	hired    int
	// slot is the stable name of a worker process and of those that replace it.
	slots  map[string]string
	submit *rig.Process
	lines  io.WriteCloser

	mu      sync.Mutex
	acked   []string
	outages []outage
}

// play runs a system under a fault and returns the verdict.
func (b *bench) play(ctx context.Context, of system, f fault) (figures, string, error) {
	r := &run{bench: b, of: of, load: b.loadOf(of), fault: f, proxies: make(map[string][]*proxy), workers: make(map[string]*rig.Process),
		slots: make(map[string]string)}
	defer r.end()
	if err := r.start(ctx); err != nil {
		return figures{}, "", err
	}
	record, err := r.measure(ctx)
	if err != nil {
		return figures{}, "", err
	}
	return judge(record), r.servers.version(), nil
}

func (r *run) start(ctx context.Context) (err error) {
	r.dir = filepath.Join(r.bench.dir, r.of.name+"-"+string(r.fault))
	if err := shell(ctx, ".", nil, "mkdir", "-p", r.dir); err != nil {
		return err
	}
	if r.fault == clockFault && r.of.goDir != nil {
		if err := r.buildSkewed(ctx, r.of.goDir(r.bench), ".", r.goProgram(r.of.name, "", true)); err != nil {
			return err
		}
	}
	if r.provider, err = newProvider(); err != nil {
		return err
	}
	if r.servers, err = r.of.start(ctx, r.bench); err != nil {
		return err
	}
	if err := r.startSubmitter(ctx); err != nil {
		return err
	}
	for _, slot := range []string{"s1", "s2"} {
		if err := r.hire(ctx, slot, false); err != nil {
			return err
		}
	}
	return nil
}

// environ returns the environment of a client process.
func (r *run) environ(name string, addresses []string) []string {
	limits, _ := json.Marshal(r.load.limits)
	return rig.Inherited("LIMITS_ADDR="+strings.Join(addresses, ","), "LIMITS_PROVIDER="+r.provider.address,
		"LIMITS_KEYS="+strings.Join(keyNames(r.load.keys), ","), "LIMITS_LIMITS="+string(limits),
		"LIMITS_WORKER="+name, "LIMITS_SLOT="+r.slots[name], "LIMITS_DIR="+r.dir)
}

// client starts a client process and waits until it prints "ready". Other lines go to heard.
func (r *run) client(ctx context.Context, name, role string, skewed bool, addresses []string, heard func(string),
	stdin io.Reader) (*rig.Process, error) {
	line := r.of.client(r.bench, role, skewed)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env, cmd.Stdin = r.environ(name, addresses), stdin
	if skewed && r.of.goDir == nil {
		moved, err := r.faketime()
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, moved...)
	}
	ready := make(chan struct{})
	once := sync.OnceFunc(func() { close(ready) })
	cmd.Stdout = &lineWriter{line: func(text string) {
		if text == "ready" {
			once()
		} else if heard != nil {
			heard(text)
		}
	}}
	p, err := rig.Start(name, cmd, filepath.Join(r.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	select {
	case <-ready:
		return p, nil
	case <-p.Ended():
		return nil, fmt.Errorf("%s ended: %s", name, p.LastWords(6))
	case <-time.After(maxReady):
		p.Kill()
		return nil, fmt.Errorf("%s was not ready in %s: %s", name, maxReady, p.LastWords(6))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startSubmitter starts the process that submits jobs. It is connected to the servers directly.
func (r *run) startSubmitter(ctx context.Context) error {
	stdin, lines := io.Pipe()
	r.lines = lines
	var err error
	r.submit, err = r.client(ctx, "submit", "submit", false, r.servers.addresses(), func(id string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.acked = append(r.acked, id)
	}, stdin)
	return err
}

// hire starts a worker process behind proxies of its own.
func (r *run) hire(ctx context.Context, slot string, skewed bool) error {
	r.hired++
	name := fmt.Sprintf("w%d", r.hired)
	r.slots[name] = slot
	var addresses []string
	for _, target := range r.servers.addresses() {
		p, err := newProxy(target)
		if err != nil {
			return err
		}
		r.proxies[name] = append(r.proxies[name], p)
		addresses = append(addresses, p.address())
	}
	p, err := r.client(ctx, name, "work", skewed, addresses, nil, nil)
	r.workers[name] = p
	return err
}

// measure runs the phases of a run and returns its record.
func (r *run) measure(ctx context.Context) (record, error) {
	hot := r.load.hot(r.fault == cutFault)
	encoder := json.NewEncoder(r.lines)
	feed := newFeeder(r.load, r.of.has, func(j job) { _ = encoder.Encode(j) }, r.provider.startedOf)
	r.provider.begin = time.Now()
	measured := time.Duration(r.seconds) * time.Second
	calm := span{warm, warm + measured}
	backlog := r.load.hot(false)
	feeding, stop := context.WithCancel(ctx)
	var feeder sync.WaitGroup
	feeder.Go(func() {
		for feeding.Err() == nil {
			feed.fill(backlog)
			if r.fault == cutFault && r.provider.now() >= calm.To-holdBefore && feed.fed["held-0"] == 0 {
				feed.hold(heldTime)
			}
			sleep(feeding, feedEvery)
		}
	})
	sleep(ctx, calm.To-r.provider.now())
	err := r.strike(ctx)
	healed := r.provider.now()
	after := span{healed + settle, healed + settle + measured}
	sleep(ctx, after.To-r.provider.now())
	stop()
	feeder.Wait()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return record{}, err
	}
	drained := r.drain(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of.noJobs {
		r.acked = nil
	}
	largest := 0
	for _, s := range shapes {
		largest = max(largest, s.units)
	}
	return record{Calls: r.provider.all(), Limits: r.load.limits, Has: r.of.has, PerMinute: r.of.perMinute, Largest: largest, Hot: hot,
		Acked: r.acked, Calm: calm, After: after, Outages: r.outages, Drained: drained}, nil
}

// strike carries the fault out and returns once it has ended.
func (r *run) strike(ctx context.Context) error {
	switch r.fault {
	case serverFault:
		restart, err := r.servers.crash(ctx)
		if err != nil {
			return err
		}
		sleep(ctx, down)
		return restart(ctx)
	case workerFault:
		r.out("w1", r.provider.now(), time.Hour)
		r.workers["w1"].Kill()
		sleep(ctx, down)
		return r.hire(ctx, "s1", false)
	case clockFault: // a worker with a right clock is replaced by one with a wrong one
		r.out("w1", r.provider.now(), time.Hour)
		_ = r.workers["w1"].Signal(syscall.SIGTERM)
		if !r.workers["w1"].Wait(maxStop) {
			r.workers["w1"].Kill()
		}
		return r.hire(ctx, "s1", true)
	case cutFault:
		from := r.provider.now()
		for _, p := range r.proxies["w1"] {
			p.cut(true)
		}
		sleep(ctx, cutTime)
		for _, p := range r.proxies["w1"] {
			p.cut(false)
		}
		r.out("w1", from, r.provider.now())
	}
	return nil
}

func (r *run) out(worker string, from, to time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outages = append(r.outages, outage{worker, span{from, to}})
}

// drain waits until every acknowledged job has been called and no call is open, or until no job has been called for the
// first time for maxQuiet. It returns false if the time was up before.
func (r *run) drain(ctx context.Context) bool {
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < maxDrain; sleep(ctx, 200*time.Millisecond) {
		r.mu.Lock()
		left := 0
		for _, id := range r.acked {
			if !r.provider.called(id) {
				left++
			}
		}
		r.mu.Unlock()
		quiet, open := r.provider.quiet()
		if open == 0 && quiet > time.Second && (left == 0 || quiet > max(maxQuiet, r.of.holds)) {
			return true
		}
	}
	return false
}

// end stops everything that the run started.
func (r *run) end() {
	for _, p := range r.workers {
		if p != nil {
			p.Kill()
		}
	}
	if r.lines != nil {
		_ = r.lines.Close()
	}
	if r.submit != nil {
		r.submit.Kill()
	}
	for _, some := range r.proxies {
		for _, p := range some {
			p.close()
		}
	}
	if r.servers != nil {
		r.servers.stop()
	}
	if r.provider != nil {
		r.provider.close()
	}
}

// sleep waits for a time, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// lineWriter calls line with each whole line that is written.
type lineWriter struct {
	rest []byte
	line func(string)
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		text, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.rest = rest
		w.line(strings.TrimSpace(string(text)))
	}
}
