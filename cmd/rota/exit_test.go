package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	kind := func(k rota.Kind) error { return fmt.Errorf("call: %w", &rota.Error{Kind: k, Text: "no"}) }
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"done", nil, 0},
		{"a stranger's error", errors.New("x"), 1},
		{"conflict", kind(rota.Conflict), 1},
		{"conflict at submission", asSubmitted(kind(rota.Conflict)), 4},
		{"mode at submission", asSubmitted(kind(rota.Mode)), 4},
		{"not found at submission", asSubmitted(kind(rota.NotFound)), 3},
		{"stale", kind(rota.Stale), 1},
		{"out of range", kind(rota.OutOfRange), 1},
		{"denied", kind(rota.Denied), 1},
		{"internal", kind(rota.Internal), 1},
		{"invalid", kind(rota.Invalid), 2},
		{"usage", usagef("x"), 2},
		{"not found", kind(rota.NotFound), 3},
		{"exhausted", kind(rota.Exhausted), 4},
		{"mode", kind(rota.Mode), 4},
		{"timeout", kind(rota.Timeout), 5},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), 5},
		{"unavailable", kind(rota.Unavailable), 7},
		{"coded beats kind", &codedError{6, kind(rota.Invalid)}, 6},
		{"ended otherwise", endedWell([]rota.Job{{State: rota.Dead}}), 6},
		{"ended well", endedWell([]rota.Job{{State: rota.Completed}}), 0},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}

func TestWorstCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kinds []rota.Kind
		want  int
	}{
		{nil, 0},
		{[]rota.Kind{rota.Exhausted}, 4},
		{[]rota.Kind{rota.Exhausted, rota.Invalid, rota.NotFound}, 2},
		{[]rota.Kind{rota.NotFound, rota.Mode}, 4},
		{[]rota.Kind{rota.NotFound}, 3},
		{[]rota.Kind{rota.Exhausted, rota.Unavailable}, 7},
		{[]rota.Kind{rota.Internal}, 1},
	} {
		if got := worstCode(kindCode, c.kinds); got != c.want {
			t.Errorf("%v: %d, want %d", c.kinds, got, c.want)
		}
	}
}

func TestErrorLine(t *testing.T) {
	t.Parallel()
	line := errorLine(&rota.Error{Kind: rota.Exhausted, Text: "queue q\nis full",
		RetryAfter: 1500 * time.Millisecond}, nil)
	if want := "rota: queue q is full; try again in 1.5s"; line != want {
		t.Errorf("got %q, want %q", line, want)
	}
	line = errorLine(&rota.Error{Kind: rota.Unavailable, Text: "no node answered"}, []string{"a:1", "b:2"})
	if !strings.Contains(line, "a:1, b:2") || strings.Contains(line, "\n") {
		t.Errorf("unavailable does not name who was asked: %q", line)
	}
}
