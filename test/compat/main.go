package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxRun limits a run with all rows and all installations.
const maxRun = 3 * time.Hour

func main() {
	var o options
	flag.StringVar(&o.binary, "rota", "bin/rota", "binary of rota")
	flag.StringVar(&o.only, "only", "", "groups, tools or \"quick\", separated by commas; empty: all rows")
	flag.StringVar(&o.page, "write", "", "page to update, such as docs/compatibility.md")
	flag.BoolVar(&o.install, "install", false, "install the tools of these rows and run nothing")
	flag.BoolVar(&o.list, "list", false, "list the rows and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, maxRun)
	defer cancel()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		stop()
		os.Exit(1) //nolint:gocritic // both deferred calls only release what ends with the process
	}
}

type options struct {
	binary, only, page string
	install, list      bool
}

// run runs the selected rows and writes the page.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	all := rows()
	chosen, err := choose(all, o.only)
	if err != nil {
		return err
	}
	if o.list {
		for _, r := range chosen {
			fmt.Fprintf(out, "%-12s %-24s quick=%-5v %s\n", r.group, r.tool, r.quick, r.does)
		}
		return nil
	}
	s, err := newScene(o.binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	var unexpected []string
	var results []result
	for _, r := range chosen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		began := time.Now()
		got := s.play(ctx, r, o.install)
		results = append(results, got)
		fmt.Fprintf(out, "%-12s %-24s %-12s %6.1f s  %s\n", r.group, r.tool, got.version, time.Since(began).Seconds(),
			got.text)
		if got.failed && r.fault == "" {
			unexpected = append(unexpected, r.group+" "+r.tool)
		}
		if o.page != "" && !o.install && ctx.Err() == nil {
			if err := writePage(o.page, all, results); err != nil {
				return err
			}
		}
	}
	if len(unexpected) > 0 {
		return fmt.Errorf("%d rows failed and name no known cause: %s", len(unexpected), strings.Join(unexpected, ", "))
	}
	return nil
}

// choose returns the rows that a list of groups, tools or "quick" selects.
func choose(all []row, only string) ([]row, error) {
	if only == "" {
		return all, nil
	}
	wanted := strings.Split(only, ",")
	found := make(map[string]bool)
	chosen := slices.DeleteFunc(slices.Clone(all), func(r row) bool {
		for _, w := range wanted {
			if w == r.group || w == r.tool || w == "quick" && r.quick {
				found[w] = true
				return false
			}
		}
		return true
	})
	for _, w := range wanted {
		if !found[w] {
			return nil, fmt.Errorf("ONLY: got %q, want a group (%s), the name of a tool, or quick", w,
				strings.Join(groups(all), ", "))
		}
	}
	return chosen, nil
}

// groups returns the names of all groups in their order.
func groups(all []row) (names []string) {
	for _, r := range all {
		if !slices.Contains(names, r.group) {
			names = append(names, r.group)
		}
	}
	return names
}

// cacheDir returns the directory of installed tools.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	return filepath.Join(base, "rota-compat"), err
}
