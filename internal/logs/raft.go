package logs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
)

// ForRaft returns a logger for hashicorp/raft whose lines go to log. Its info level becomes debug, because operators
// read our own lines. Repeated lines about a node that is down are logged once a minute, the rest at debug.
func ForRaft(log *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, DisableTime: true,
		Output: raftLines{log, &Limiter{}}})
}

// raftLines turns "[WARN]  raft: text" into a record of that level.
type raftLines struct {
	log   *slog.Logger
	lines *Limiter
}

var _ io.Writer = raftLines{}

// Write writes one line.
func (w raftLines) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	level := slog.LevelDebug
	for _, l := range []struct {
		mark  string
		level slog.Level
	}{{"[ERROR]", slog.LevelWarn}, {"[WARN]", slog.LevelInfo}, {"[INFO]", slog.LevelDebug}, {"[DEBUG]",
		slog.LevelDebug}} {
		if rest, ok := bytes.CutPrefix(text, []byte(l.mark)); ok {
			text, level = bytes.TrimSpace(rest), l.level
			break
		}
	}
	if level > slog.LevelDebug && !w.lines.Allow(subjectOf(text)) {
		level = slog.LevelDebug
	}
	w.log.Log(context.Background(), level, string(text))
	return len(line), nil
}

// subjectOf returns the subject of a line of raft: "raft: failed to contact: server-id=n2 time=12ms" and the next such
// line have the same subject.
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

// Quieting returns a logger that writes to log, and only errors while quiet is set: a node that stops closes
// connections itself, and the libraries report that.
func Quieting(log *slog.Logger, quiet *atomic.Bool) *slog.Logger {
	return slog.New(quieting{log.Handler(), quiet})
}

type quieting struct {
	slog.Handler
	quiet *atomic.Bool
}

// Enabled implements slog.Handler.
func (h quieting) Enabled(ctx context.Context, level slog.Level) bool {
	return (level >= slog.LevelError || !h.quiet.Load()) && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h quieting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quieting{h.Handler.WithAttrs(attrs), h.quiet}
}

// WithGroup implements slog.Handler.
func (h quieting) WithGroup(name string) slog.Handler {
	return quieting{h.Handler.WithGroup(name), h.quiet}
}
