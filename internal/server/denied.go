package server

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

// denied records refused calls by caller: each is counted, and has a line in the data directory while the file has
// room.
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
		Name: "rota_calls_denied_total", Help: "Calls refused for lack of a credential or right.",
	}, []string{"method", "reason"})
}

// add records one refusal. Method names come from the table of rights, so that the number of series is bounded.
func (d *denied) add(why rota.Kind, x logs.Denial) {
	d.calls.WithLabelValues(x.Method, why.String()).Inc()
	d.lines.Add(x)
}
