package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// row is one line of the page: a tool, and an action with it.
type row struct {
	group, tool string
	// does describes the action, for the page.
	does string
	// quick means that it takes under a minute once its tool is installed.
	quick bool
	// most limits its time, without the installation.
	most time.Duration
	try  func(ctx context.Context, s *scene, t *installed) (seen string, err error)
	// fault is why a row is known to fail: the cause, and what a fix would require.
	fault string
}

// result is the outcome of a row.
type result struct {
	row
	version, text string
	failed        bool
	date          time.Time
}

// skipped is why a row was not run.
type skipped string

func (s skipped) Error() string { return string(s) }

// maxText is how much of an error the page shows.
const maxText = 240

// play installs a row's tool and runs the row.
func (s *scene) play(ctx context.Context, r row, installOnly bool) result {
	got := result{row: r, date: time.Now().UTC()}
	t, err := s.install(ctx, r.tool)
	if t != nil {
		got.version = t.version
	}
	var missing skipped
	if err != nil && !errors.As(err, &missing) {
		err = skipped("cannot be installed: " + firstLines(err))
	}
	seen := ""
	switch {
	case err != nil:
	case installOnly:
		seen = "installed"
	default:
		inner, cancel := context.WithTimeout(ctx, r.most)
		seen, err = r.try(inner, s, t)
		if seen == "" {
			seen = t.note
		}
		if inner.Err() != nil && err != nil {
			err = fmt.Errorf("not done within %s: %w", r.most, err)
		}
		cancel()
		if t.version != "" {
			got.version = t.version
		}
	}
	var no skipped
	switch {
	case errors.As(err, &no):
		got.text = "not run: " + firstLines(no)
	case err != nil:
		got.failed = true
		got.text = "**fails**: " + firstLines(err)
		if r.fault != "" {
			got.text += ". " + r.fault
		}
	default:
		got.text = "works"
		if seen != "" {
			got.text += ": " + seen
		}
	}
	return got
}

// firstLines returns an error's text on one line, shortened.
func firstLines(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// rows returns the whole matrix, in the order of the page.
func rows() []row {
	var all []row
	for _, part := range [][]row{protocolRows(), generatorRows(), proxyRows(), postgresRows(), storeRows(),
		issuerRows(), runtimeRows(), recipientRows()} {
		all = append(all, part...)
	}
	return all
}
