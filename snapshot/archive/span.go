package archive

import (
	"encoding/binary"
	"slices"

	"github.com/rotasched/rota/internal/peer"
)

// Span is the numbers From to To, both included.
type Span = peer.ArchiveSpan

// Spans are disjoint spans in order, none touching the next.
type Spans []Span

// find returns the first span that ends at seq or later.
func (s Spans) find(seq uint64) int {
	at, _ := slices.BinarySearchFunc(s, seq, func(x Span, seq uint64) int {
		if x.To < seq {
			return -1
		}
		return 1
	})
	return at
}

// Has reports whether a number is in one of the spans.
func (s Spans) Has(seq uint64) bool {
	at := s.find(seq)
	return at < len(s) && s[at].From <= seq
}

// Count returns how many numbers the spans have.
func (s Spans) Count() (n uint64) {
	for _, x := range s {
		n += x.To - x.From + 1
	}
	return n
}

// Add adds the numbers from…to, and joins spans that then touch. Number 0, and an empty span, are ignored.
func (s *Spans) Add(from, to uint64) {
	if from == 0 || to < from {
		return
	}
	first := s.find(from - 1)
	last := first
	for last < len(*s) && (*s)[last].From <= to+1 {
		from, to = min(from, (*s)[last].From), max(to, (*s)[last].To)
		last++
	}
	*s = slices.Replace(*s, first, last, Span{From: from, To: to})
}

// remove removes one number.
func (s *Spans) remove(seq uint64) { s.removeSpan(Span{From: seq, To: seq}) }

// removeSpan removes the numbers of a span.
func (s *Spans) removeSpan(x Span) {
	first := s.find(x.From)
	last, rest := first, []Span(nil)
	for last < len(*s) && (*s)[last].From <= x.To {
		if y := (*s)[last]; y.From < x.From {
			rest = append(rest, Span{From: y.From, To: x.From - 1})
		}
		if y := (*s)[last]; y.To > x.To {
			rest = append(rest, Span{From: x.To + 1, To: y.To})
		}
		last++
	}
	*s = slices.Replace(*s, first, last, rest...)
}

// cut removes all numbers up to seq.
func (s *Spans) cut(seq uint64) {
	at := s.find(seq + 1)
	*s = slices.Delete(*s, 0, at)
	if len(*s) > 0 && (*s)[0].From <= seq {
		(*s)[0].From = seq + 1
	}
}

// gaps returns the numbers from…to that no span has, at most most spans.
func (s Spans) gaps(from, to uint64, most int) (gaps Spans) {
	for at := s.find(from); from <= to && len(gaps) < most; at++ {
		if at >= len(s) || s[at].From > to {
			return append(gaps, Span{From: from, To: to})
		}
		if s[at].From > from {
			gaps = append(gaps, Span{From: from, To: s[at].From - 1})
		}
		from = s[at].To + 1
	}
	return gaps
}

// append writes pairs of 8 bytes big-endian.
func (s Spans) append(b []byte) []byte {
	for _, x := range s {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, x.From), x.To)
	}
	return b
}

// parseSpans parses the output of append and rejects anything else.
func parseSpans(b []byte) (s Spans, ok bool) {
	for ; len(b) >= 16; b = b[16:] {
		x := Span{From: binary.BigEndian.Uint64(b), To: binary.BigEndian.Uint64(b[8:])}
		if x.From == 0 || x.To < x.From || x.To == 1<<64-1 || len(s) > 0 && x.From <= s[len(s)-1].To+1 {
			return nil, false
		}
		s = append(s, x)
	}
	return s, len(b) == 0
}
