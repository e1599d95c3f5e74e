package check

import (
	"slices"
)

// Pair is two kinds of nemeses active at the same time, in the order of their names.
type Pair struct{ a, b string }

// PairOf returns the pair of two kinds, in whichever order they come.
func PairOf(a, b string) Pair { return Pair{min(a, b), max(a, b)} }

// pairs returns the kinds of nemeses that were active at the same time, and how often.
func pairs(faults []Fault) map[Pair]int {
	met := make(map[Pair]int)
	for i, a := range faults {
		for _, b := range faults[i+1:] {
			if a.Lane != b.Lane && a.From < b.To && b.From < a.To {
				met[PairOf(a.Nemesis, b.Nemesis)]++
			}
		}
	}
	return met
}

// pairNames are pairs in words, for figures.
func pairNames(met map[Pair]int) map[string]int {
	names := make(map[string]int, len(met))
	for p, n := range met {
		names[p.a+" + "+p.b] = n
	}
	return names
}

// kinds returns the nemeses that could strike in a run, or did, by name.
func kinds(h *History) []string {
	all := slices.Clone(h.Nemeses)
	for i := range h.Faults {
		all = append(all, h.Faults[i].Nemesis)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
