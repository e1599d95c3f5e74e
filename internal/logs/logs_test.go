package logs

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	var l Limiter
	if !l.Allow("a") || l.Allow("a") || !l.Allow("b") {
		t.Error("want one line per subject")
	}
	for i := range 10 * subjectsMax {
		l.Allow(string(rune('c' + i)))
	}
	if len(l.last) > subjectsMax {
		t.Errorf("%d subjects are remembered", len(l.last))
	}
}

func TestForRaft_saysTheSameOnceAMinute(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := ForRaft(slog.New(slog.NewTextHandler(&out, nil)))
	for i := range 100 {
		log.Error("failed to heartbeat to", "peer", "127.0.0.1:1", "backoff time", i, "error", "refused")
		log.Warn("failed to contact", "server-id", "n2", "time", i)
	}
	log.Warn("failed to contact", "server-id", "n3", "time", 1)
	if lines := strings.Count(out.String(), "\n"); lines != 3 {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}
