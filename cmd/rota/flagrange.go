package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// rangedFlag refuses a number out of its range where the command line is read, so that
// the refusal names the flag, the value and the range as the user gave them, and the
// exit code is that of a wrong call.
type rangedFlag struct {
	pflag.Value
	least, most float64
}

// Set implements pflag.Value.
func (f *rangedFlag) Set(text string) error {
	if v, err := strconv.ParseFloat(text, 64); err == nil && !(v >= f.least && v <= f.most) { // NaN is in no range
		return fmt.Errorf("%s is wanted", rangeText(f.least, f.most))
	}
	return f.Value.Set(text)
}

func rangeText(least, most float64) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	if math.IsInf(most, 1) {
		return number(least) + " or more"
	}
	return number(least) + " to " + number(most)
}

// within bounds numeric flags that are defined already; most may be infinite.
func within(flags *pflag.FlagSet, least, most float64, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Value = &rangedFlag{f.Value, least, most}
	}
}
