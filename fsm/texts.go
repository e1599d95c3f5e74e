package fsm

import (
	"strings"
	"unicode/utf8"
)

// texts makes strings side by side in pieces of memory: one allocation for some forty
// ids. A piece lives as long as the last string in it, so each use that has a lifetime
// of its own has texts of its own.
type texts struct{ piece strings.Builder }

// textsPiece is small, as one job that lives for ever keeps a whole one.
const textsPiece = 1 << 10

func (t *texts) keep(b []byte) string {
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

// text is what the function of that name does, kept here.
func (t *texts) text(f field) (string, bool) { return t.keep(f.bytes), utf8.Valid(f.bytes) }
