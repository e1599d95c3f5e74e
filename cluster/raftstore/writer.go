package raftstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

// errStoresClosed is returned for writes after Close.
var errStoresClosed = errors.New("the stores are closed")

// writer runs every write of raft.db on one goroutine. Callers notice a write that hangs in the kernel, and nothing is
// written after the first failure: a write that timed out may still reach the disk although raft counted it as failed.
type writer struct {
	dir   string
	opts  Options
	queue chan *queuedWrite
	ahead *aheadWriter
	done  chan struct{} // closed when the goroutine has ended
	stop  chan struct{} // closed by close

	mu     sync.Mutex // guards failed
	failed error

	fatal    sync.Once
	unfit    sync.Once
	stopOnce sync.Once
	watches  sync.WaitGroup
}

// queuedWrite is one write and its result.
type queuedWrite struct {
	run    func() error
	answer chan error // buffered, so that a late result blocks nothing
}

func newWriter(dir string, opts Options) *writer {
	w := &writer{
		dir:   dir,
		opts:  opts,
		queue: make(chan *queuedWrite),
		ahead: newAheadWriter(),
		done:  make(chan struct{}),
		stop:  make(chan struct{}),
	}
	go w.loop()
	return w
}

// loop performs the writes. It checks failed before each one: raft's goroutines may have queued behind the one that
// failed.
func (w *writer) loop() {
	defer close(w.done)
	for {
		select {
		case <-w.stop:
			return
		case job := <-w.queue:
			if err := w.failure(); err != nil {
				job.answer <- err
				continue
			}
			if w.opts.BeforeWrite != nil {
				w.opts.BeforeWrite()
			}
			err := runGuarded(job.run)
			if err != nil {
				err = w.fail(w.describe(err))
			}
			job.answer <- err
		}
	}
}

// runGuarded turns a panic of bbolt over damaged pages into an error, so that the process ends with a clear message.
func runGuarded(run func() error) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("bbolt: %v", what)
		}
	}()
	return run()
}

// do runs one write after all entries written ahead, and waits for it like doNow.
func (w *writer) do(what string, run func() error) error {
	if err := w.ahead.drain(); err != nil {
		return err
	}
	return w.doNow(what, run)
}

// doNow runs one write and waits for it up to StallAfter. Then the caller gets an error, while a watch waits for the
// end of the write or for ExitAfter. A write that fails ends the process before raft learns of it.
func (w *writer) doNow(what string, run func() error) error {
	if err := w.failure(); err != nil {
		return err
	}
	job := &queuedWrite{run: run, answer: make(chan error, 1)}
	waited := newPatience(w.opts.StallAfter)
	defer waited.end()
	queue, stop := w.queue, w.stop
	for {
		select {
		case queue <- job:
			queue = nil // accepted: wait for its result
		case err := <-job.answer:
			if err != nil {
				w.die(err)
			}
			return err
		case <-stop:
			if queue != nil {
				return errStoresClosed
			}
			stop = nil // the write in progress ends before the stores do
		case <-waited.tick():
			if !waited.over() || len(job.answer) > 0 {
				continue
			}
			if queue != nil { // queued behind a write that hangs
				return w.stalled(what, nil)
			}
			return w.stalled(what, job.answer)
		}
	}
}

// stalled makes the node unfit and watches the hanging write until it ends.
func (w *writer) stalled(what string, answer <-chan error) error {
	err := w.fail(rota.Refusef(rota.KindUnavailable, "data", "a write (%s) to data directory %s did not return "+
		"within %s: the disk hangs. The node steps out and ends; look at the disk (dmesg, iostat -x) and "+
		"start it again", what, w.dir, w.opts.StallAfter))
	w.unfit.Do(func() {
		w.opts.Logger.Error("the disk hangs: this node steps out", "dir", w.dir, "write", what)
		w.opts.Unfit(err.Error())
		w.watches.Go(func() { w.watch(answer) })
	})
	return err
}

// watch ends the process when the hanging write returns, successful or not, or when ExitAfter has passed since it
// began. Even a successful return does not allow continuing: raft counted the write as failed, and would write another
// entry at its index.
func (w *writer) watch(answer <-chan error) {
	waited := newPatience(w.opts.ExitAfter - w.opts.StallAfter)
	defer waited.end()
	for {
		select {
		case <-answer:
		case <-waited.tick():
			if !waited.over() {
				continue
			}
		case <-w.stop:
			return
		}
		w.die(w.failure())
		return
	}
}

// patience measures how long an operation took while this process was running. A process that was stopped (SIGSTOP, a
// suspended machine) did not wait for its disk. A single timer for the whole wait was rejected: it would blame the disk
// for the pause.
type patience struct {
	ticker *time.Ticker
	step   time.Duration
	left   time.Duration
	last   time.Time
}

// patienceStep is the interval between checks; a late check counts at most twice that.
const patienceStep = 250 * time.Millisecond

func newPatience(most time.Duration) *patience {
	step := max(min(patienceStep, most/8), time.Millisecond)
	return &patience{ticker: time.NewTicker(step), step: step, left: most, last: time.Now()}
}

func (p *patience) tick() <-chan time.Time { return p.ticker.C }

// over is called at each tick and reports whether the time is up.
func (p *patience) over() bool {
	now := time.Now()
	p.left -= min(now.Sub(p.last), 2*p.step)
	p.last = now
	return p.left <= 0
}

func (p *patience) end() { p.ticker.Stop() }

// fail records and returns the first failure, after which nothing is written.
func (w *writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
	return w.failed
}

// die stops all writing and calls Fatal, once.
func (w *writer) die(err error) {
	_ = w.fail(err)
	w.fatal.Do(func() { w.opts.Fatal(err) })
}

// failure returns why writing has stopped, nil if it has not.
func (w *writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// close ends the goroutine after the write in progress and reports whether it ended; it does not if that write hangs.
func (w *writer) close() (ended bool) {
	w.stopOnce.Do(func() { close(w.stop) })
	w.watches.Wait()
	wait := time.NewTimer(w.opts.StallAfter)
	defer wait.Stop()
	select {
	case <-w.done:
		return true
	case <-wait.C:
		return false
	}
}

// describe turns a write error into one for the operator.
func (w *writer) describe(err error) error {
	if noRoom(err) {
		return diskFull(w.dir, err)
	}
	return diskFailed(w.dir, err)
}
