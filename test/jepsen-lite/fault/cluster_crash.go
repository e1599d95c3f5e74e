package fault

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// crashed records a node that ended by itself and, as an init system would, starts it again.
func (k *Cluster) crashed(s *Server, exit string) {
	if k.isClosing() {
		return
	}
	crash := check.Crash{At: k.rec.Now(), Node: s.ID, Exit: exit, Log: s.LastWords()}
	k.rec.With(func(h *check.History) { h.Crashes = append(h.Crashes, crash) })
	s.rotten.ended(crash.Log)
	time.Sleep(time.Second)
	if k.isClosing() {
		return
	}
	if err := s.Start(); err != nil {
		k.rec.Note("%s does not start again: %v", s.ID, err)
	}
}

func (k *Cluster) isClosing() bool {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	return k.closing
}

// close sets whether nodes are to stay down.
func (k *Cluster) close(closing bool) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.closing = closing
}

// stuck records a node that does not end after a request, and where all its goroutines wait.
func (k *Cluster) stuck(s *Server, patience time.Duration) {
	at := k.rec.Now()
	path := filepath.Join(k.Dir, s.ID+"-stuck.txt")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	text := "its goroutines could not be had"
	answer, err := s.Look(ctx, "/debug/pprof/goroutine?debug=2")
	if err == nil {
		goroutines, rerr := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
		_ = answer.Body.Close()
		if rerr == nil && os.WriteFile(path, goroutines, 0o600) == nil {
			text = "its goroutines are in " + path
		}
	}
	if err != nil && s.dump() {
		text = "its goroutines are in its log"
	}
	stuck := check.Crash{At: at - int64(patience), Node: s.ID, Exit: patience.String(),
		Log: text + "; " + s.LastWords()}
	k.rec.With(func(h *check.History) { h.Stuck = append(h.Stuck, stuck) })
}
