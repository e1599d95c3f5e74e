package stream

import "fmt"

// idKey is the field of every raft request that names its sender.
const idKey = "ID"

// topText is a text at the top level of a request that must be checked: a key, or the sender's id.
type topText struct {
	// sender reports that the text is the value of idKey, key that it is a key.
	sender, key bool
	wanted      int
	held        []byte
}

// take appends a part of the text.
func (t *topText) take(p []byte) {
	t.held = append(t.held, p[:min(len(p), t.wanted-len(t.held))]...)
}

// place checks the first byte of a value if the sender is checked. raft also accepts a request that is an array, and a
// key or id that is one: those are rejected, since no node writes them that way.
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
		return fmt.Errorf("%w: a request that is not a map", errFrame)
	case 2:
		key := m.stack[1]%2 == 0
		m.text = topText{key: key, sender: m.text.sender && !key}
		if (m.text.key || m.text.sender) && !text {
			return fmt.Errorf("%w: byte %#x instead of a key or the sender's id", errFrame, b)
		}
	}
	return nil
}

// beginText records the length of the text.
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

// endText checks a complete text.
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
