package jsonparts

import (
	"bytes"
	"slices"
)

// MayRepeat reports whether some object of a valid text may have a member twice. It goes through the text once and
// compares names by their ASCII letters without case. It returns true for names that it cannot compare: those with
// escapes and those outside ASCII. Find decides those.
func MayRepeat(text []byte) bool {
	r := repeats{text: text}
	_, found := r.value(blanks(text, 0))
	return found
}

// repeats has the names of the objects around a place, those of the innermost one last.
type repeats struct {
	text  []byte
	names []place
}

// place is a part of the text.
type place struct{ from, to int }

func (r *repeats) value(at int) (end int, found bool) {
	if at == len(r.text) {
		return at, false
	}
	switch r.text[at] {
	case '{':
		return r.object(at)
	case '[':
		for at = blanks(r.text, at+1); at < len(r.text) && r.text[at] != ']'; at = blanks(r.text, at+1) {
			before := at
			if at, found = r.value(at); found || at == before {
				return at, found
			}
			if at = blanks(r.text, at); at == len(r.text) || r.text[at] != ',' {
				break
			}
		}
		return min(at+1, len(r.text)), false
	default:
		return valueEnd(r.text, at), false
	}
}

func (r *repeats) object(at int) (end int, found bool) {
	first := len(r.names)
	for at = blanks(r.text, at+1); at < len(r.text) && r.text[at] == '"'; at = blanks(r.text, at+1) {
		end := textEnd(r.text, at)
		if !plain(r.text[at:end]) {
			return at, true
		}
		r.names = append(r.names, place{at + 1, end - 1})
		if at = blanks(r.text, blanks(r.text, end)+1); at >= len(r.text) {
			return len(r.text), false
		}
		before := at
		if at, found = r.value(at); found || at == before {
			return at, found
		}
		if at = blanks(r.text, at); at == len(r.text) || r.text[at] != ',' {
			break
		}
	}
	found = r.repeated(r.names[first:])
	r.names = r.names[:first]
	return min(at+1, len(r.text)), found
}

// fewNames are compared each with each.
const fewNames = 16

func (r *repeats) repeated(names []place) bool {
	if len(names) <= fewNames {
		for i, a := range names {
			for _, b := range names[:i] {
				if a.to-a.from == b.to-b.from && r.compare(a, b) == 0 {
					return true
				}
			}
		}
		return false
	}
	slices.SortFunc(names, r.compare)
	for i := range names[1:] {
		if r.compare(names[i], names[i+1]) == 0 {
			return true
		}
	}
	return false
}

// compare orders two names by their lower case.
func (r *repeats) compare(a, b place) int {
	x, y := r.text[a.from:a.to], r.text[b.from:b.to]
	for i := range min(len(x), len(y)) {
		if c, d := lower(x[i]), lower(y[i]); c != d {
			return int(c) - int(d)
		}
	}
	return len(x) - len(y)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// plain reports whether a name has neither escapes nor letters outside ASCII.
func plain(name []byte) bool {
	return bytes.IndexByte(name, '\\') < 0 && !slices.ContainsFunc(name, func(c byte) bool { return c >= 0x80 })
}
