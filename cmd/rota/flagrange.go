package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
)

// rangedFlag refuses a number or duration out of its range where the command line is
// read, so that the refusal names the flag, the value and the range as the user gave
// them, and the exit code is that of a wrong call. Every such flag is one.
type rangedFlag struct {
	pflag.Value
	// least and most are both an int64, a float64 or a time.Duration.
	least, most any
	// orZero allows 0 too, which has a meaning of its own.
	orZero bool
}

// Set implements pflag.Value.
func (f *rangedFlag) Set(text string) error {
	if !f.holds(text) {
		return fmt.Errorf("%s is wanted", f.span())
	}
	return f.Value.Set(text)
}

// holds reports whether a value is in the range. What cannot be parsed is left to Value.
func (f *rangedFlag) holds(text string) bool {
	switch least := f.least.(type) {
	case float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return true
		}
		return v >= least && v <= f.most.(float64) || f.orZero && v == 0 // NaN is in no range
	case time.Duration:
		v, err := rota.ParseDuration(text)
		return err != nil || v >= least && v <= f.most.(time.Duration) || f.orZero && v == 0
	default:
		v, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return !errors.Is(err, strconv.ErrRange)
		}
		return v >= f.least.(int64) && v <= f.most.(int64) || f.orZero && v == 0
	}
}

// span is the range in words.
func (f *rangedFlag) span() string {
	text := boundText(f.least) + " to " + boundText(f.most)
	if f.most == int64(math.MaxInt64) {
		text = boundText(f.least) + " or more"
	}
	if f.orZero {
		text = "0, or " + text
	}
	return text
}

func boundText(bound any) string {
	switch v := bound.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Duration:
		if v == 0 {
			return "0"
		}
		text := v.String()
		for _, empty := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, empty) {
				text = text[:len(text)-2]
			}
		}
		return text
	default:
		return fmt.Sprint(v)
	}
}

// bound is what bounds a flag. An int64 is for what an int of 32 bits does not hold.
type bound interface {
	int | int64 | float64 | time.Duration
}

// within bounds flags that are defined already. The most that an int64 holds says that
// there is no upper bound.
func within[T bound](flags *pflag.FlagSet, least, most T, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Value = &rangedFlag{Value: f.Value, least: asBound(least), most: asBound(most)}
	}
}

// withinOrZero is within for flags whose 0 means something else than a number.
func withinOrZero[T bound](flags *pflag.FlagSet, least, most T, names ...string) {
	within(flags, least, most, names...)
	for _, name := range names {
		flags.Lookup(name).Value.(*rangedFlag).orZero = true
	}
}

func asBound(v any) any {
	if n, ok := v.(int); ok {
		return int64(n)
	}
	return v
}

// The bounds of what only this binary reads.
const (
	// unbounded is the most of what has no bound but its type's.
	unbounded int64 = math.MaxInt64
	// maxMs is rota.MaxDuration for flags in milliseconds.
	maxMs = int64(rota.MaxDuration / time.Millisecond)
	// maxBenchJobs bounds a benchmark's ledger, which is in memory from the start;
	// maxBenchWorkers its producers and workers: more are a typo.
	maxBenchJobs    = 100_000_000
	maxBenchWorkers = 10_000
	// maxTimeScale makes 10 years of 5 minutes.
	maxTimeScale = 1_000_000.0
	// leastSpeedup and maxSpeedup bound how a job log is replayed.
	leastSpeedup, maxSpeedup = 0.001, 1_000_000_000.0
	// maxRate is far more jobs a second than a process sends.
	maxRate = 1_000_000_000.0
)
