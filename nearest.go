package rota

import (
	"strconv"
	"strings"
)

// Nearest returns the name that a mistyped one most likely means: one that it is but for
// its case, that it begins, or that is at most two slips of the pen away. It returns ""
// where there is none.
func Nearest(typed string, names []string) string {
	best, distance := "", 3
	for _, n := range names {
		switch {
		case n == "":
			continue
		case strings.EqualFold(n, typed):
			return n
		case len(typed) >= 3 && len(n) > len(typed) && strings.EqualFold(n[:len(typed)], typed):
			best, distance = n, 0
			continue
		}
		if d := editDistance(typed, n); d < distance && d < len(typed) {
			best, distance = n, d
		}
	}
	return best
}

// DidYouMean is the question for the nearest name, "" where none is near.
func DidYouMean(typed string, names []string) string {
	if best := Nearest(typed, names); best != "" {
		return ": did you mean " + strconv.Quote(best) + "?"
	}
	return ""
}

// Unknown refuses a name that is none of those wanted, and guesses which one is meant.
func Unknown(subject, what, typed string, names []string) *Error {
	names = choices(names)
	wanted := strings.Join(names, ", ")
	if guess := DidYouMean(typed, names); guess != "" {
		return Refusef(KindInvalid, subject, "%s %q is unknown%s One of %s is wanted", what, typed, guess, wanted)
	}
	return Refusef(KindInvalid, subject, "%s %q is unknown: one of %s is wanted", what, typed, wanted)
}

// editDistance is Levenshtein's, in bytes; names longer than any id are far apart.
func editDistance(a, b string) int {
	if len(a) > MaxNodeIDBytes || len(b) > MaxNodeIDBytes || max(len(a)-len(b), len(b)-len(a)) > 2 {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// JobStateNames lists the job states as people write them.
func JobStateNames() []string { return choices(jobStateNames) }

// ClusterModeNames lists the cluster modes as people write them.
func ClusterModeNames() []string { return choices(modeNames) }

// ServiceTierNames lists the service tiers as people write them.
func ServiceTierNames() []string { return choices(serviceTierNames) }

// EventKindNames lists the kinds of events.
func EventKindNames() []string { return choices(eventKindNames) }
