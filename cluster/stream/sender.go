package stream

import "fmt"

// idKey is the field of every request of raft's that names its sender.
const idKey = "ID"

// topText is a text at the top of a request that is looked at: a key, or the sender's id.
type topText struct {
	// sender says that the text is the value of idKey, key that it is a key.
	sender, key bool
	wanted      int
	held        []byte
}

// take keeps a part of it.
func (t *topText) take(p []byte) {
	t.held = append(t.held, p[:min(len(p), t.wanted-len(t.held))]...)
}

// place looks at the first byte of a value where the sender is asked for. raft takes a
// request that is an array as well, and a key or id that is one: those are refused, as
// no node writes them so.
func (m *frameMeter) place(b byte) error {
	if m.from == "" {
		return nil
	}
	text := b >= 0xa0 && b < 0xc0 || b >= 0xc4 && b <= 0xc6 || b >= 0xd9 && b <= 0xdb
	switch len(m.stack) {
	case 1:
		if b >= 0x80 && b < 0x90 || b == 0xde || b == 0xdf {
			return nil
		}
		return fmt.Errorf("%w: a request that is no map", errFrame)
	case 2:
		key := m.stack[1]%2 == 0
		m.text = topText{key: key, sender: m.text.sender && !key}
		if (m.text.key || m.text.sender) && !text {
			return fmt.Errorf("%w: byte %#x where a key or the sender's id stands", errFrame, b)
		}
	}
	return nil
}

// beginText notes how long the text is.
func (m *frameMeter) beginText(length uint64) error {
	if m.from == "" || len(m.stack) != 2 {
		return nil
	}
	switch {
	case m.text.key && length == uint64(len(idKey)):
		m.text.wanted = len(idKey)
	case m.text.sender && length != uint64(len(m.from)):
		return m.otherSender()
	case m.text.sender:
		m.text.wanted = len(m.from)
	}
	return nil
}

// endText judges a text that is whole.
func (m *frameMeter) endText() error {
	if m.text.wanted == 0 || len(m.stack) != 2 {
		return nil
	}
	text := m.text
	m.text = topText{}
	switch {
	case text.key && string(text.held) == idKey:
		m.text.sender = true
		m.ids++
	case text.sender && string(text.held) != m.from:
		return m.otherSender()
	}
	return nil
}

func (m *frameMeter) otherSender() error {
	return fmt.Errorf("%w: a request in another node's name, sent by node %s", errFrame, m.from)
}
