package jsonparts

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// maxLevels is how deep encoding/json reads.
const maxLevels = 10_000

// Broken is the first reason why a text is not one JSON value. Like those of a Fault, its words do not depend on the
// version of Go.
type Broken struct {
	// Offset is where the text is not JSON; its length if it ends too early.
	Offset int
	words  string
	cause  error
}

// Error returns the reason.
func (b *Broken) Error() string { return b.words }

// Unwrap returns io.ErrUnexpectedEOF for a text that ends too early, otherwise nil.
func (b *Broken) Unwrap() error { return b.cause }

// NotJSON returns why a text is not one JSON value that encoding/json reads, nil if it is one.
func NotJSON(text []byte) *Broken {
	at := scan(text, maxLevels)
	if at >= 0 {
		return nil
	}
	b := &Broken{Offset: ^at}
	if b.Offset == len(text) {
		b.words, b.cause = "the JSON ends too early", io.ErrUnexpectedEOF
		return b
	}
	r, size := utf8.DecodeRune(text[b.Offset:])
	b.words = fmt.Sprintf("invalid character %q", r)
	switch {
	case r == utf8.RuneError && size == 1:
		b.words = fmt.Sprintf("invalid byte 0x%02x", text[b.Offset])
	case scan(text, len(text)) != at:
		b.words = fmt.Sprintf("nested deeper than %d levels", maxLevels)
	}
	return b
}
