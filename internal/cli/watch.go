package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"
)

// Watcher shows how far something is: a bar on a terminal, else nothing or now
// and then a line.
type Watcher struct {
	out   io.Writer
	bar   progress.Writer
	what  string
	total int64
	value func() int64

	done    sync.WaitGroup
	stopped chan struct{}
	once    sync.Once
}

const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
)

// Terminal reports whether a writer is one.
func Terminal(w io.Writer) bool {
	if locked, ok := w.(*LockedWriter); ok {
		w = locked.W
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Watch shows value's way to total on stderr until stop.
func (a *App) Watch(what string, total int64, value func() int64) *Watcher {
	w := &Watcher{out: a.Stderr, what: what, total: total, value: value, stopped: make(chan struct{})}
	if Terminal(a.Stderr) {
		w.showBar()
	}
	w.done.Go(w.run)
	return w
}

func (w *Watcher) showBar() {
	w.bar = progress.NewWriter()
	w.bar.SetOutputWriter(w.out)
	w.bar.SetTrackerLength(40)
	w.bar.SetUpdateFrequency(barEvery)
	w.bar.SetStyle(progress.StyleBlocks)
	w.bar.Style().Visibility.ETA = true
	w.bar.Style().Visibility.Speed = true
	w.bar.Style().Options.ErrorString = "stopped"
}

func (w *Watcher) run() {
	every := lineEvery
	var tracker *progress.Tracker
	if w.bar != nil {
		every = barEvery
		tracker = &progress.Tracker{Message: w.what, Total: w.total}
		w.bar.AppendTracker(tracker)
		w.done.Go(w.bar.Render)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := int64(-1)
	for {
		select {
		case <-w.stopped:
			if tracker != nil {
				end(tracker, w.value())
				w.bar.Stop()
			}
			return
		case <-tick.C:
		}
		n := w.value()
		if tracker != nil {
			tracker.SetValue(n)
		} else if n != last {
			fmt.Fprintf(w.out, "%s: %d of %d\n", w.what, n, w.total)
		}
		last = n
	}
}

// end leaves the bar at what was reached, which is less than all where it was interrupted.
func end(tracker *progress.Tracker, reached int64) {
	tracker.SetValue(reached)
	if reached < tracker.Total {
		tracker.MarkAsErrored()
		return
	}
	tracker.MarkAsDone()
}

// Say puts a line above the bar.
func (w *Watcher) Say(format string, args ...any) {
	if w.bar != nil {
		w.bar.Log(format, args...)
		return
	}
	fmt.Fprintf(w.out, format+"\n", args...)
}

// Stop ends the show.
func (w *Watcher) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		w.done.Wait()
	})
}

// LockedWriter lets goroutines write whole lines to one place.
type LockedWriter struct {
	mu sync.Mutex
	W  io.Writer
}

func (l *LockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.W.Write(p)
}
