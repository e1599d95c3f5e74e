package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
)

// durationValue is a flag's duration: rota.ParseDuration's, days among them.
type durationValue time.Duration

// Set implements pflag.Value.
func (d *durationValue) Set(text string) error {
	v, err := rota.ParseDuration(text)
	*d = durationValue(v)
	return err
}

// String implements pflag.Value. None is a plain 0, which help leaves out.
func (d *durationValue) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value.
func (d *durationValue) Type() string { return "duration" }

// DurationVar defines a flag for a duration, which needs a unit.
func DurationVar(flags *pflag.FlagSet, into *time.Duration, name string, standard time.Duration, usage string) {
	*into = standard
	flags.Var((*durationValue)(into), name, usage)
}

// DateValue is a flag's date.
type DateValue rota.Date

// Set implements pflag.Value.
func (d *DateValue) Set(text string) error {
	at, err := ParseDate(text)
	if err == nil {
		*d = DateValue(at.UnixMilli())
	}
	return err
}

// String implements pflag.Value.
func (d *DateValue) String() string { return rota.Date(*d).String() }

// Type implements pflag.Value.
func (d *DateValue) Type() string { return "date" }

// dateForms are the dates that people write, RFC 3339 first. What names no zone is local.
var dateForms = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
	"2006-01-02 15:04",
	time.DateOnly}

// WantedDate says in messages which dates ParseDate reads.
const WantedDate = "a date such as 2031-01-31T15:04:05Z, or 2031-01-31 15:04 in local time"

// ParseDate reads a date in any of dateForms.
func ParseDate(text string) (time.Time, error) {
	for _, form := range dateForms {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, Usagef("invalid date %q: use %s", text, WantedDate)
}

// NextValue is a flag's date, or a time of day: the next one in local time.
type NextValue DateValue

// Set implements pflag.Value.
func (d *NextValue) Set(text string) error {
	if at, ok := NextTimeOfDay(time.Now(), text); ok {
		*d = NextValue(at.UnixMilli())
		return nil
	}
	if err := (*DateValue)(d).Set(text); err != nil {
		return Usagef("invalid date %q: use a time of day such as 14:05, or %s", text, WantedDate)
	}
	return nil
}

// String implements pflag.Value.
func (d *NextValue) String() string { return (*DateValue)(d).String() }

// Type implements pflag.Value.
func (d *NextValue) Type() string { return "date" }

// NextTimeOfDay returns the first moment after now that has a time of day such as 14:05 in the zone of now; ok is false
// if the text is not one.
func NextTimeOfDay(now time.Time, text string) (at time.Time, ok bool) {
	of, err := time.Parse("15:04", text)
	if err != nil {
		return at, false
	}
	year, month, day := now.Date()
	if at = time.Date(year, month, day, of.Hour(), of.Minute(), 0, 0, now.Location()); !at.After(now) {
		at = time.Date(year, month, day+1, of.Hour(), of.Minute(), 0, 0, now.Location())
	}
	return at, true
}

// ParsePairs reads the K=V of a flag that may be repeated; value reads what follows the
// first =, and example shows one.
func ParsePairs[V any](flag string, pairs []string, example string,
	value func(text string) (V, error)) (map[string]V, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	all := make(map[string]V, len(pairs))
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		v, err := value(text)
		if !ok || name == "" || err != nil {
			return nil, Usagef("%s: got %q; use a value such as %s", flag, pair, example)
		}
		if _, twice := all[name]; twice {
			return nil, Usagef("%s %s is given twice", flag, name)
		}
		all[name] = v
	}
	return all, nil
}
