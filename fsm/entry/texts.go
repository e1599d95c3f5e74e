package entry

import (
	"strings"
	"unicode/utf8"
)

// Texts allocates strings next to each other in larger pieces of memory: one allocation for about forty ids. A piece
// lives as long as its last string, so each use with its own lifetime has its own Texts.
type Texts struct{ piece strings.Builder }

// textsPiece is small, as one long-lived job keeps a whole piece.
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

// text returns the string of a field, which must be UTF-8.
func (t *Texts) text(f field) (string, bool) { return t.Keep(f.bytes), utf8.Valid(f.bytes) }
