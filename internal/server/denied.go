package server

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

// denied keeps the calls that were refused for who made them: each is counted, and has a line
// in the data directory as far as the file takes it.
type denied struct {
	calls *prometheus.CounterVec
	lines *logs.Denials
}

func openDenied(dir string, log *slog.Logger) (*denied, error) {
	lines, err := logs.OpenDenials(dir, log)
	if err != nil {
		return nil, fmt.Errorf("open the file of denied calls: %w", err)
	}
	return &denied{lines: lines, calls: DeniedCalls()}, nil
}

// DeniedCalls returns the metric of denied calls.
func DeniedCalls() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rota_calls_denied_total", Help: "Calls refused for who made them.",
	}, []string{"method", "reason"})
}

// add takes one. Methods are those of the table of rights, so that the series are bounded.
func (d *denied) add(why rota.Kind, x logs.Denial) {
	d.calls.WithLabelValues(x.Method, why.String()).Inc()
	d.lines.Add(x)
}
