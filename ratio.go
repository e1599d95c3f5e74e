package rota

import (
	"fmt"
	"strconv"
	"strings"
)

// decimals is how many a ratio of a scale has.
func decimals(scale int64) int { return len(strconv.FormatInt(scale, 10)) - 1 }

// parseRatio parses a decimal fraction, such as 1, 0.9 or .25, times a power of ten. It rejects a result that is not a
// whole number, and text without a digit.
func parseRatio(text string, scale int64) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	part = strings.TrimRight(part, "0")
	places := decimals(scale)
	bad := fmt.Errorf("%q is not a ratio with at most %d decimals", text, places)
	if len(part) > places || !strings.ContainsAny(text, "0123456789") {
		return 0, bad
	}
	digits := whole + part + strings.Repeat("0", places-len(part))
	if strings.Trim(digits, "0123456789") != "" {
		return 0, bad
	}
	return strconv.ParseInt(digits, 10, 64)
}

// ratioText writes a ratio as parseRatio reads it.
func ratioText(v, scale int64) string {
	text := strconv.FormatInt(v/scale, 10)
	if part := v % scale; part != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%0*d", decimals(scale), part), "0")
	}
	return text
}
