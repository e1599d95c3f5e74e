package entry

import (
	"strings"
	"unicode/utf8"
)

// Texts makes strings side by side in pieces of memory: one allocation for some forty
// ids. A piece lives as long as the last string in it, so each use that has a lifetime
// of its own has Texts of its own.
type Texts struct{ piece strings.Builder }

// textsPiece is small, as one job that lives for ever keeps a whole one.
const textsPiece = 1 << 10

// Keep returns a copy of b as a string.
func (t *Texts) Keep(b []byte) string {
	if len(b) > textsPiece/4 {
		return string(b)
	}
	if t.piece.Cap()-t.piece.Len() < len(b) {
		t.piece = strings.Builder{}
		t.piece.Grow(textsPiece)
	}
	at := t.piece.Len()
	t.piece.Write(b)
	return t.piece.String()[at:]
}

// text reads a string of a field, which must be UTF-8.
func (t *Texts) text(f field) (string, bool) { return t.Keep(f.bytes), utf8.Valid(f.bytes) }
