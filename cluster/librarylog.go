package cluster

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
)

// raftLogger takes the library's log lines into ours. Its info is our debug: an
// operator reads ours. What it says again and again of a node that is down comes
// once a minute, the rest at debug.
func raftLogger(log *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, DisableTime: true,
		Output: lineWriter{log, &lineLimiter{}}})
}

// lineWriter turns "[WARN]  raft: text" into a record of that level.
type lineWriter struct {
	log   *slog.Logger
	lines *lineLimiter
}

var _ io.Writer = lineWriter{}

// Write takes one line.
func (w lineWriter) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	level := slog.LevelDebug
	for _, l := range []struct {
		mark  string
		level slog.Level
	}{{"[ERROR]", slog.LevelWarn}, {"[WARN]", slog.LevelInfo}, {"[INFO]", slog.LevelDebug}, {"[DEBUG]", slog.LevelDebug}} {
		if rest, ok := bytes.CutPrefix(text, []byte(l.mark)); ok {
			text, level = bytes.TrimSpace(rest), l.level
			break
		}
	}
	if level > slog.LevelDebug && !w.lines.allow(subjectOf(text)) {
		level = slog.LevelDebug
	}
	w.log.Log(context.Background(), level, string(text))
	return len(line), nil
}

// subjectOf gives what a line of raft is about: "raft: failed to contact:
// server-id=n2 time=12ms" and the next one like it are about the same.
func subjectOf(text []byte) string {
	said, rest, _ := bytes.Cut(bytes.TrimPrefix(text, []byte("raft: ")), []byte(":"))
	subject := string(said[:min(len(said), 60)])
	for _, field := range bytes.Fields(rest) {
		for _, key := range []string{"peer=", "server-id=", "id=", "peer-id=", "target="} {
			if bytes.HasPrefix(field, []byte(key)) {
				return subject + " " + string(field)
			}
		}
	}
	return subject
}

// stoppingHandler hides the libraries' complaints about connections that this
// node itself closes while it stops.
type stoppingHandler struct {
	slog.Handler
	quiet *atomic.Bool
}

// Enabled implements slog.Handler.
func (h stoppingHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return (level >= slog.LevelError || !h.quiet.Load()) && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h stoppingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stoppingHandler{h.Handler.WithAttrs(attrs), h.quiet}
}

// WithGroup implements slog.Handler.
func (h stoppingHandler) WithGroup(name string) slog.Handler {
	return stoppingHandler{h.Handler.WithGroup(name), h.quiet}
}
