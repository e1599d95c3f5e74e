package server

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota/cluster"
)

// TestWarnExposed checks that a node without access control is logged at the start and every hour.
func TestWarnExposed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Minute)
		defer cancel()
		var said bytes.Buffer
		warnExposed(ctx, slog.New(slog.NewTextHandler(&said, nil)))
		if n := strings.Count(said.String(), cluster.ExposedText); n != 3 {
			t.Errorf("logged %d times in two hours and a half: %s", n, said.String())
		}
	})
}
