package main

import (
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// call is one request as the provider saw it. Times are since the start of the run, by the provider's monotonic clock.
type call struct {
	Key, Job, Worker string
	// Units is what the call spent.
	Units      int
	Start, End time.Duration
	// Open means that it had not ended when the run did; End is then the end of the run.
	Open bool
}

// provider is the stub of a model provider, and the only instrument: the judge uses nothing else.
type provider struct {
	server  *http.Server
	address string

	mu    sync.Mutex
	begin time.Time
	calls []call
	seen  map[string]bool
	// started counts the different jobs of each key.
	started map[string]int
	last    time.Time
}

// maxRepeatHold limits how long the second call of a job is held, so that a run ends soon after a long call was
// repeated.
const maxRepeatHold = 2 * time.Second

func newProvider() (*provider, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{address: "http://" + listener.Addr().String(), begin: time.Now(), seen: make(map[string]bool),
		started: make(map[string]int), last: time.Now()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call", p.call)
	mux.HandleFunc("POST /v1/chat/completions", p.chat)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

func (p *provider) close() { _ = p.server.Close() }

// now returns the time since the start of the run.
func (p *provider) now() time.Duration { return time.Since(p.begin) }

// call serves POST /call?key=K&job=J&units=N&ms=M&worker=W.
func (p *provider) call(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	units, bad := strconv.Atoi(q.Get("units"))
	ms, worse := strconv.Atoi(q.Get("ms"))
	if bad != nil || worse != nil || q.Get("key") == "" || q.Get("job") == "" {
		http.Error(w, "want key, job, units and ms", http.StatusBadRequest)
		return
	}
	spent := p.hold(r, call{Key: q.Get("key"), Job: q.Get("job"), Worker: q.Get("worker"), Units: units}, ms)
	fmt.Fprintf(w, "%d\n", spent)
}

// hold records a call, waits, and records its end: after the time asked for, or when the connection breaks. The end is
// recorded before the answer is sent.
func (p *provider) hold(r *http.Request, c call, ms int) (spent int) {
	c.Units = spentOf(c.Job, c.Units)
	p.mu.Lock()
	c.Start, c.Open = p.now(), true
	at := len(p.calls)
	p.calls = append(p.calls, c)
	wait := time.Duration(ms) * time.Millisecond
	if p.seen[c.Job] {
		wait = min(wait, maxRepeatHold)
	} else {
		p.seen[c.Job] = true
		p.started[c.Key]++
		p.last = time.Now()
	}
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[at].End, p.calls[at].Open = p.now(), false
	return c.Units
}

// spentOf returns what a job spends: 70 to 100 % of its estimate, the same for every call of the job.
func spentOf(job string, estimate int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(job))
	return estimate * (70 + int(h.Sum32()%31)) / 100
}

// startedOf returns how many different jobs of a key have been called.
func (p *provider) startedOf(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started[key]
}

// quiet returns for how long no job has been called for the first time, and how many calls are open.
func (p *provider) quiet() (since time.Duration, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c.Open {
			open++
		}
	}
	return time.Since(p.last), open
}

// called reports whether a job has been called.
func (p *provider) called(job string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[job]
}

// all returns the calls so far.
func (p *provider) all() []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := append([]call(nil), p.calls...)
	for i := range calls {
		if calls[i].Open {
			calls[i].End = p.now()
		}
	}
	return calls
}
