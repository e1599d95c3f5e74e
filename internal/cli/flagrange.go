package cli

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

// RangedFlag refuses a number or duration out of its range where the command line is
// read, so that the refusal names the flag, the value and the range as the user gave
// them, and the exit code is that of a wrong call. Every such flag is one.
type RangedFlag struct {
	pflag.Value
	// Least and most are both an int64, a float64 or a time.Duration.
	Least, Most any
	// OrZero allows 0 too, which has a meaning of its own.
	OrZero bool
}

// Set implements pflag.Value.
func (f *RangedFlag) Set(text string) error {
	if !f.holds(text) {
		return fmt.Errorf("use %s", f.Span())
	}
	return f.Value.Set(text)
}

// holds reports whether a value is in the range. What cannot be parsed is left to Value.
func (f *RangedFlag) holds(text string) bool {
	switch least := f.Least.(type) {
	case float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return true
		}
		return v >= least && v <= f.Most.(float64) || f.OrZero && v == 0 // NaN is in no range
	case time.Duration:
		v, err := rota.ParseDuration(text)
		return err != nil || v >= least && v <= f.Most.(time.Duration) || f.OrZero && v == 0
	default:
		v, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return !errors.Is(err, strconv.ErrRange)
		}
		return v >= f.Least.(int64) && v <= f.Most.(int64) || f.OrZero && v == 0
	}
}

// Span is the range in words.
func (f *RangedFlag) Span() string {
	text := boundText(f.Least) + " to " + boundText(f.Most)
	if f.Most == int64(math.MaxInt64) {
		text = boundText(f.Least) + " or more"
	}
	if f.OrZero {
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

// Within bounds flags that are defined already. The most that an int64 holds says that
// there is no upper bound.
func Within[T bound](flags *pflag.FlagSet, least, most T, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Value = &RangedFlag{Value: f.Value, Least: asBound(least), Most: asBound(most)}
	}
}

// WithinOrZero is within for flags whose 0 means something else than a number.
func WithinOrZero[T bound](flags *pflag.FlagSet, least, most T, names ...string) {
	Within(flags, least, most, names...)
	for _, name := range names {
		flags.Lookup(name).Value.(*RangedFlag).OrZero = true
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
	// Unbounded is the most of what has no bound but its type's.
	Unbounded int64 = math.MaxInt64
	// MaxMs is rota.MaxDuration for flags in milliseconds.
	MaxMs = int64(rota.MaxDuration / time.Millisecond)
	// MaxBenchJobs bounds a benchmark's ledger, which is in memory from the start;
	// maxBenchWorkers its producers and workers: more are a typo.
	MaxBenchJobs    = 100_000_000
	MaxBenchWorkers = 10_000
	// MaxTimeScale makes 10 years of 5 minutes.
	MaxTimeScale = 1_000_000.0
	// LeastSpeedup and MaxSpeedup bound how fast a job log is replayed.
	LeastSpeedup = 0.001
	// MaxSpeedup is the most.
	MaxSpeedup = 1_000_000_000.0
	// MaxRate is far more jobs a second than a process sends.
	MaxRate = 1_000_000_000.0
)
