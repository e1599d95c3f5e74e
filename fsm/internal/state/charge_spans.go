package state

import (
	"math/bits"
	"slices"
)

// span is what an interval with starts and repayments did to a debt: max(debt + add, least).
type span struct{ add, least Int128 }

func (s span) after(debt Int128) Int128 { return debt.Plus(s.add).Max(s.least) }

// then returns the span of s and the interval after it. The zero span changes nothing, since no debt is negative.
func (s span) then(next span) span { return span{s.add.Plus(next.add), next.after(s.least)} }

// Spans compose the charges of a count in the order of their starts: a segment tree, so that a change of one of n
// charges takes log n steps instead of n. It is derived from the rows, whenever it is missing.
type Spans struct {
	// period is that of the count's rule in ms.
	period int64
	// numbers are those of the charges, in ascending order; ended ones stay until the leaves are used up.
	numbers []uint64
	// nodes[1] is the composition of all, nodes[i] that of nodes[2i] and nodes[2i+1]; the second half are the leaves.
	nodes []span
}

// NewSpans returns spans for a number of charges, and as many more again.
func NewSpans(charges int, period int64) *Spans {
	return &Spans{period: period, nodes: make([]span, 4<<bits.Len(uint(charges)))}
}

// Set states a charge; false means that no leaf is left for it.
func (t *Spans) Set(row *ChargeRow) bool {
	at, found := slices.BinarySearch(t.numbers, row.Number)
	if !found {
		if at < len(t.numbers) || at == len(t.nodes)/2 {
			return false
		}
		t.numbers = append(t.numbers, row.Number)
	}
	t.put(at, span{row.Add.Plus(Product(row.Amount, t.period)), row.Least})
	return true
}

func (t *Spans) put(at int, s span) {
	at += len(t.nodes) / 2
	for t.nodes[at] = s; at > 1; {
		at /= 2
		t.nodes[at] = t.nodes[2*at].then(t.nodes[2*at+1])
	}
}

// After returns the debt after all charges, given what it was before the first.
func (t *Spans) After(debt Int128) Int128 { return t.nodes[1].after(debt) }

// ChargeSpans are Spans by count.
type ChargeSpans map[string]*Spans

// Changed takes over a charge that began or changed.
func (cs ChargeSpans) Changed(row *ChargeRow) {
	if t := cs[row.Count]; t != nil && !t.Set(row) {
		delete(cs, row.Count) // the next question makes larger ones
	}
}

// Ended removes a charge, whose span its predecessor or the base has taken over.
func (cs ChargeSpans) Ended(row *ChargeRow) {
	if t := cs[row.Count]; t != nil {
		if at, found := slices.BinarySearch(t.numbers, row.Number); found {
			t.put(at, span{})
		}
	}
}
