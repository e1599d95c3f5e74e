package web

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/rotasched/rota"
)

// Batch is a range of events in the encodings in which they are sent. Each encoding is made once for all receivers, as
// encoding costs far more than sending.
type Batch struct {
	Events []rota.ServedEvent
	// Scanned is the event up to which the search went.
	Scanned rota.EventID

	texts, blocks, lines encoded
}

// encoded is one encoding.
type encoded struct {
	once sync.Once
	all  [][]byte
	err  error
}

// pieceBytes is the approximate size of one write.
const pieceBytes = 64 << 10

// Texts returns one JSON text per event.
func (b *Batch) Texts() ([][]byte, error) {
	b.texts.once.Do(func() {
		for i := range b.Events {
			text, err := b.Events[i].MarshalJSON() // not through encoding/json, which would escape a payload's bytes
			if err != nil {
				b.texts.err = err
				return
			}
			b.texts.all = append(b.texts.all, text)
		}
	})
	return b.texts.all, b.texts.err
}

// pieces joins events, each as add appends it, and then the progress of the search if the last event does not show it.
func (b *Batch) pieces(f *encoded, add func(to []byte, id rota.EventID, text []byte) []byte) ([][]byte, error) {
	f.once.Do(func() {
		var piece []byte
		var last rota.EventID
		for i := range b.Events {
			text, err := b.Events[i].MarshalJSON()
			if err != nil {
				f.err = err
				return
			}
			if last = b.Events[i].ID; len(piece)+len(text) > pieceBytes && len(piece) > 0 {
				f.all, piece = append(f.all, piece), nil
			}
			piece = add(piece, last, text)
		}
		if b.Scanned != last && !b.Scanned.IsZero() {
			piece = add(piece, b.Scanned, nil)
		}
		if len(piece) > 0 {
			f.all = append(f.all, piece)
		}
	})
	return f.all, f.err
}

// Blocks returns the batch as server-sent events. Each has the id of its event; one with only an id moves the reader's
// cursor past events that its filter leaves out.
func (b *Batch) Blocks() ([][]byte, error) {
	return b.pieces(&b.blocks, func(to []byte, id rota.EventID, text []byte) []byte {
		return appendBlock(to, id.String(), "", text)
	})
}

// Lines returns the batch as lines of JSON.
func (b *Batch) Lines() ([][]byte, error) {
	return b.pieces(&b.lines, func(to []byte, id rota.EventID, text []byte) []byte {
		if text == nil {
			return append(append(append(to, `{"scanned":"`...), id.String()...), "\"}\n"...)
		}
		return append(append(to, oneLine(text)...), '\n')
	})
}

// oneLine returns JSON without line breaks, which can only occur between its tokens.
func oneLine(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return bytes.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return ' '
			}
			return r
		}, text)
	}
	return b.Bytes()
}

// appendBlock appends one server-sent event, whose data is JSON; empty parts are left out.
func appendBlock(to []byte, id, name string, data []byte) []byte {
	if id != "" {
		to = append(append(append(to, "id: "...), id...), '\n')
	}
	if name != "" {
		to = append(append(append(to, "event: "...), name...), '\n')
	}
	if data != nil {
		to = append(append(append(to, "data: "...), oneLine(data)...), '\n')
	}
	return append(to, '\n')
}
