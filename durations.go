package rota

import (
	"strconv"
	"strings"
	"time"
)

// ParseDuration parses a duration in human-readable form: the units of time.ParseDuration, and d, a day of 24 hours,
// which comes first, as in 1d12h or 0.5d. It checks no limits.
func ParseDuration(text string) (time.Duration, error) {
	bare, negative := strings.CutPrefix(text, "-")
	if !negative {
		bare = strings.TrimPrefix(bare, "+")
	}
	refusal := Refusef(KindInvalid, "duration", "invalid duration %q: use a value such as 300ms, 30s, 5m, 2h or 1d12h", shorten(text))
	if _, err := strconv.ParseInt(bare, 10, 64); err == nil && strings.Trim(bare, "0") != "" {
		return 0, Refusef(KindInvalid, "duration", "%q has no unit: write %sms or %ss", text, text, text)
	}
	if strings.ContainsAny(bare, "+-") {
		return 0, refusal
	}
	total := time.Duration(0)
	days, rest, has := strings.Cut(bare, "d")
	if has {
		hours, err := time.ParseDuration(days + "h")
		if err != nil || hours > maxDays || strings.Trim(days, "0123456789.") != "" {
			return 0, refusal
		}
		total = 24 * hours
	} else {
		rest = bare
	}
	if rest != "" || !has {
		d, err := time.ParseDuration(rest)
		if err != nil || total > 0 && d > 1<<62-total {
			return 0, refusal
		}
		total += d
	}
	if negative {
		total = -total
	}
	return total, nil
}

// maxDays is the largest number of days, expressed in hours, that fits in a time.Duration with room for the rest.
const maxDays = time.Duration(1<<62) / 24
