package workload

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// maxWeigh bounds the wait for one node's answer.
const maxWeigh = 5 * time.Second

// weigh asks every founder for its resource use.
func (w *trial) weigh(ctx context.Context) {
	for _, s := range w.Cluster.All()[:w.Cluster.Founders] {
		files, goroutines, err := weightOf(ctx, s.Look)
		if err != nil {
			w.Rec.Note("%s was not weighed: %v", s.ID, err)
			continue
		}
		weight := check.Weight{At: w.Rec.Now(), Node: s.ID, Files: files, Goroutines: goroutines}
		w.Rec.With(func(h *check.History) { h.Weights = append(h.Weights, weight) })
	}
}

// weightOf reads a node's own metrics: its process may be out of this one's sight.
func weightOf(ctx context.Context, look func(context.Context, string) (*http.Response,
	error)) (files, goroutines int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWeigh)
	defer cancel()
	answer, err := look(ctx, "/metrics")
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	files, goroutines = -1, -1
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, nerr := strconv.ParseFloat(value, 64)
		switch {
		case nerr != nil:
		case name == "process_open_fds":
			files = int64(number)
		case name == "go_goroutines":
			goroutines = int64(number)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, 0, err
	}
	if files < 0 || goroutines < 0 {
		return 0, 0, fmt.Errorf("its metrics contain neither its files nor its goroutines")
	}
	return files, goroutines, nil
}
