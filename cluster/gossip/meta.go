package gossip

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"

	"github.com/rotasched/rota"
)

const (
	// metaVersion is the first byte of the metadata.
	metaVersion = 1
	// metaMax is memberlist's bound on metadata.
	metaMax = memberlist.MetaMaxSize
	// textMax bounds each text in it, so that all of them fit.
	textMax = 90
	// identityBytes is the length of a data directory's identity in bytes.
	identityBytes = 16
	// flagState is the flag HasState.
	flagState = 1
)

// encodeMeta returns: version, two zero bytes, flags, expected nodes (2 bytes, big endian), identity (16 bytes), then
// five texts, each preceded by a length byte: cluster id, API, raft and admin address, version of the binary. Values
// that a later binary writes in place of the zeros, as flags or after the texts are ignored.
func encodeMeta(m Meta) ([]byte, error) {
	identity, err := hex.DecodeString(m.Identity)
	if err != nil || len(identity) != identityBytes {
		return nil, fmt.Errorf("encode gossip metadata: identity %q is not 32 hex digits", m.Identity)
	}
	if m.BootstrapExpect < 0 || m.BootstrapExpect > 0xffff {
		return nil, fmt.Errorf("encode gossip metadata: %d nodes expected", m.BootstrapExpect)
	}
	flags := byte(0)
	if m.HasState {
		flags |= flagState
	}
	out := binary.BigEndian.AppendUint16([]byte{metaVersion, 0, 0, flags}, uint16(m.BootstrapExpect))
	out = append(out, identity...)
	for _, text := range []string{string(m.ClusterID), m.API, m.Raft, m.Admin, m.Version} {
		if len(text) > textMax {
			return nil, fmt.Errorf("encode gossip metadata: %q has more than %d bytes", text, textMax)
		}
		out = append(append(out, byte(len(text))), text...)
	}
	return out, nil
}

// decodeMeta decodes untrusted metadata.
func decodeMeta(data []byte) (Meta, error) {
	const front = 6
	const fixed = front + identityBytes
	var m Meta
	switch {
	case len(data) > metaMax:
		return m, fmt.Errorf("gossip metadata has %d bytes", len(data))
	case len(data) == 0:
		return m, errors.New("gossip metadata is missing")
	case data[0] != metaVersion:
		return m, fmt.Errorf("gossip metadata has version %d, this binary knows %d", data[0], metaVersion)
	case len(data) < fixed:
		return m, errors.New("gossip metadata is cut short")
	}
	texts := [5]string{}
	rest := data[fixed:]
	for i := range texts {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return m, errors.New("gossip metadata is cut short")
		}
		n := 1 + int(rest[0])
		texts[i], rest = string(rest[1:n]), rest[n:]
		if !plainText(texts[i]) {
			return m, fmt.Errorf("gossip metadata holds %q", texts[i])
		}
	}
	m = Meta{
		ClusterID: rota.ClusterID(texts[0]), API: texts[1], Raft: texts[2], Admin: texts[3], Version: texts[4],
		BootstrapExpect: int(binary.BigEndian.Uint16(data[4:])),
		HasState:        data[3]&flagState != 0,
		Identity:        hex.EncodeToString(data[front:fixed]),
	}
	if m.ClusterID != "" && !rota.ValidID(m.ClusterID) {
		return Meta{}, fmt.Errorf("gossip metadata holds cluster id %q", m.ClusterID)
	}
	return m, nil
}

// plainText reports whether s may be displayed and logged: printable ASCII, not too long.
func plainText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= textMax
}
