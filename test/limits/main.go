package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 2 && (os.Args[1] == "work" || os.Args[1] == "submit") {
		if err := runRotaClient(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "limits:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.rota, "rota", "bin/rota", "binary of rota")
	flag.StringVar(&o.only, "only", "", "systems, separated by commas; empty: all")
	flag.StringVar(&o.faults, "faults", "", "faults, separated by commas: none, server, worker, clock, cut; empty: all")
	flag.StringVar(&o.page, "write", "", "page to write, such as docs/limits-under-failover.md")
	flag.StringVar(&o.json, "json", "bin/limits.json", "file with all figures; systems that are not run keep theirs")
	flag.IntVar(&o.seconds, "seconds", 15, "length of each measured part in seconds")
	flag.IntVar(&o.keys, "keys", 1000, "number of keys")
	flag.BoolVar(&o.keep, "keep", false, "keep the directory with the logs")
	flag.BoolVar(&o.rewrite, "rewrite", false, "write the page from the file of -json, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := report(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "limits:", err)
		stop()
		os.Exit(1) //nolint:gocritic // the deferred call only releases what ends with the process
	}
}

type options struct {
	rota, only, faults, page, json string
	seconds, keys                  int
	keep, rewrite                  bool
}

// result is the outcome of one run.
type result struct {
	System, Version string
	Fault           fault
	Date            time.Time
	Seconds         float64
	Error           string `json:",omitempty"`
	Figures         figures
}

// report runs the chosen systems and writes the page.
func report(ctx context.Context, o options) (err error) {
	chosen, unknown := find(o.only)
	if unknown != "" {
		return fmt.Errorf("-only: unknown system %q", unknown)
	}
	if o.faults != "" {
		for f := range strings.SplitSeq(o.faults, ",") {
			if !slices.Contains(faults, fault(f)) {
				return fmt.Errorf("-faults: unknown fault %q", f)
			}
		}
	}
	if o.rewrite {
		results, err := readResults(o.json)
		return errors.Join(err, writePage(o.page, results, o))
	}
	b, err := newBench(o)
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("logs are kept in", b.dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	}
	results, err := readResults(o.json)
	if err != nil {
		return err
	}
	for _, s := range chosen {
		for _, f := range faults {
			if o.faults != "" && !slices.Contains(strings.Split(o.faults, ","), string(f)) {
				continue
			}
			began := time.Now()
			got := result{System: s.name, Fault: f, Date: began.UTC()}
			if got.Figures, got.Version, err = b.play(ctx, s, f); err != nil {
				got.Error = err.Error()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			got.Seconds = time.Since(began).Seconds()
			fmt.Println(got.line())
			results = keep(results, got)
			if err := writeResults(o.json, results); err != nil {
				return err
			}
		}
	}
	if o.page == "" {
		return nil
	}
	return writePage(o.page, results, o)
}

// line returns the outcome in one line of text.
func (r result) line() string {
	if r.Error != "" {
		return fmt.Sprintf("%-9s %-7s %4.0f s  not run: %s", r.System, r.Fault, r.Seconds, r.Error)
	}
	f := r.Figures
	return fmt.Sprintf("%-9s %-7s %4.0f s  %6d calls  over: %+.0f at a time, %.0f and %.0f starts, %.0f and %.0f units  "+
		"unused: %.0f %% %.0f %% %.0f %%  lost %d, twice %d (%d overlap), explained %d", r.System, r.Fault, r.Seconds,
		f.Calls, f.Concurrency.Over, f.Starts1.Over, f.Starts10.Over, f.Units10.Over, f.Units60.Over,
		100*f.Unused[short], 100*f.Unused[long], 100*f.Unused[costly], f.Lost, f.Twice, f.Overlapping, f.Explained)
}

// keep replaces the result of the same system and fault.
func keep(results []result, r result) []result {
	results = slices.DeleteFunc(results, func(old result) bool { return old.System == r.System && old.Fault == r.Fault })
	return append(results, r)
}

func readResults(file string) (results []result, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &results)
	return results, err
}

func writeResults(file string, results []result) error {
	text, err := json.MarshalIndent(results, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
