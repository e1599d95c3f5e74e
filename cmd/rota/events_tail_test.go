package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/operator"
)

// someEvents yields n events, one second apart from 1 s on, then an error if there is one.
func someEvents(n int, err error) func(yield func(rota.ServedEvent, error) bool) {
	return func(yield func(rota.ServedEvent, error) bool) {
		for i := 1; i <= n; i++ {
			if !yield(rota.ServedEvent{Event: rota.Event{ID: rota.EventID{Incarnation: 1, Index: rota.Index(i)},
				Date: rota.Date(1000 * i)}}, nil) {
				return
			}
		}
		if err != nil {
			yield(rota.ServedEvent{}, err)
		}
	}
}

// TestEventsTail_chooses shows the last events, those since a date, and both, in order, and receives every one.
func TestEventsTail_chooses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		events, last int
		begin        rota.Date
		want         string
	}{
		{5, 0, 0, "1 2 3 4 5"}, {5, 2, 0, "4 5"}, {5, 5, 0, "1 2 3 4 5"}, {5, 9, 0, "1 2 3 4 5"}, {5, 0, 3000, "3 4 5"},
		{5, 1, 3000, "5"}, {5, 4, 3000, "3 4 5"}, {5, 2, 9000, ""}, {0, 3, 0, ""},
	} {
		var got []string
		var seen rota.EventID
		heard := 0
		for e, err := range operator.Chosen(someEvents(c.events, nil), c.begin, c.last, &seen, func() { heard++ }) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(e.ID.Index))
		}
		if strings.Join(got, " ") != c.want || heard != c.events || seen.Index != rota.Index(c.events) {
			t.Errorf("%+v: got %v, heard %d, seen %v", c, got, heard, seen)
		}
	}
	broken := errors.New("broken")
	var seen rota.EventID
	for _, err := range operator.Chosen(someEvents(3, broken), 0, 2, &seen, func() {}) {
		if !errors.Is(err, broken) {
			t.Errorf("got %v, want the error and no part of the last events", err)
		}
	}
}

// TestEventsTail_flags checks which events the flags select, and which values they refuse.
func TestEventsTail_flags(t *testing.T) {
	t.Parallel()
	f := &operator.TailFlags{Queue: "q", Typ: "t", Tenant: "a", Worker: "w", Workflow: "f"}
	if got, err := f.Filter(); err != nil || got.Queue != "q" || got.Type != "t" || got.Tenant != "a" ||
		got.Worker != "w" || got.Workflow != "f" {
		t.Errorf("got %+v, %v", got, err)
	}
	now := time.UnixMilli(10_000_000)
	for since, want := range map[string]rota.Date{"": 0, "1h": 6_400_000, "0": 10_000_000,
		"1970-01-01T00:00:05Z": 5000} {
		if got, err := (&operator.TailFlags{Since: since}).Begin(now); err != nil || got != want {
			t.Errorf("--since %q: got %d, %v, want %d", since, got, err, want)
		}
	}
	for _, args := range [][]string{{"--since", "soon"}, {"--since", "-1h"}, {"--since", "5"},
		{"--since", "1h", "--from", "1.1.0"}, {"-n", "10001"}, {"-n", "-1"}, {"--worker", "a b"}} {
		if code, _, talk := runArgs(append([]string{"events", "tail"}, args...)...); code != cli.ExitUsage ||
			!strings.Contains(talk, args[len(args)-2][1:]) && !strings.Contains(talk, args[0]) {
			t.Errorf("%v: exit %d, %s", args, code, talk)
		}
	}
}
