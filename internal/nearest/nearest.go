package nearest

import (
	"fmt"
	"strconv"
	"strings"
)

// Name returns the name that a mistyped one most likely means: one that differs only in case, that begins with it, or
// that is at most two typing errors away. It returns "" if there is none.
func Name(typed string, names []string) string {
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

// Question returns the question for the nearest name, "" if none is near.
func Question(typed string, names []string) string {
	if best := Name(typed, names); best != "" {
		return ": did you mean " + strconv.Quote(best) + "?"
	}
	return ""
}

// Unknown returns an error text for a name that is not one of names. It suggests the most similar one.
func Unknown(what, typed string, names []string) string {
	shown := typed
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	options := strings.Join(names, ", ")
	if guess := Question(typed, names); guess != "" {
		return fmt.Sprintf("unknown %s %q%s Use one of %s", what, shown, guess, options)
	}
	return fmt.Sprintf("unknown %s %q: use one of %s", what, shown, options)
}

// maxShown is how many bytes of a name a text shows.
const maxShown = 80

// longest is the length in bytes up to which a name is worth a guess.
const longest = 200

// editDistance returns the Levenshtein distance in bytes; names beyond the longest are far apart.
func editDistance(a, b string) int {
	if len(a) > longest || len(b) > longest || max(len(a)-len(b), len(b)-len(a)) > 2 {
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
