package fsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/proto"
)

// RulesVersion is the version of the rules that this binary knows. An entry
// that needs a newer one stops the node (SPEC §2.6).
const RulesVersion = 1

// The envelope of a log entry: magic, rules version, flags, CRC32C over the
// flags and the body, then the body: an fsmpb.Entry.
const (
	envelopeMagic = "RTL1"
	envelopeBytes = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// HaltError says that a node cannot apply an entry and must stop: going on
// would make it differ from the others.
type HaltError struct {
	Index  rota.Index
	Reason string
	// NewerRules: the entry is sound, this binary is too old.
	NewerRules bool
}

// Error implements error.
func (e *HaltError) Error() string {
	if e.NewerRules {
		return fmt.Sprintf("entry %d: %s: this binary is too old for the cluster, start a newer one on this data directory",
			e.Index, e.Reason)
	}
	return fmt.Sprintf("entry %d: %s: this node's copy of the log is damaged; move its data directory away and "+
		"join again as a new node with a new id", e.Index, e.Reason)
}

// Seal puts an entry into its envelope.
func Seal(entry *fsmpb.Entry) ([]byte, error) {
	buf := make([]byte, envelopeBytes, envelopeBytes+proto.Size(entry))
	copy(buf, envelopeMagic)
	binary.BigEndian.PutUint16(buf[4:], RulesVersion)
	buf, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(buf, entry)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	binary.BigEndian.PutUint32(buf[8:], sum(buf))
	return buf, nil
}

func sum(envelope []byte) uint32 {
	return crc32.Update(crc32.Checksum(envelope[4:8], castagnoli), castagnoli, envelope[envelopeBytes:])
}

// open checks an envelope and decodes what it holds. The checksum is read
// before the decoder sees a byte.
func open(index rota.Index, data []byte) (*fsmpb.Entry, error) {
	if len(data) < envelopeBytes || string(data[:4]) != envelopeMagic {
		return nil, &HaltError{Index: index, Reason: "no rota entry (its first bytes are not " + envelopeMagic + ")"}
	}
	if got, want := sum(data), binary.BigEndian.Uint32(data[8:]); got != want {
		return nil, &HaltError{Index: index, Reason: fmt.Sprintf("checksum is %08x, %08x was written", got, want)}
	}
	if v := binary.BigEndian.Uint16(data[4:]); v > RulesVersion {
		return nil, &HaltError{Index: index, NewerRules: true,
			Reason: fmt.Sprintf("it needs rules version %d, this binary knows %d", v, RulesVersion)}
	}
	if flags := binary.BigEndian.Uint16(data[6:]); flags != 0 {
		return nil, &HaltError{Index: index, NewerRules: true, Reason: fmt.Sprintf("it has unknown flags %04x", flags)}
	}
	entry := &fsmpb.Entry{}
	if err := proto.Unmarshal(data[envelopeBytes:], entry); err != nil {
		return nil, &HaltError{Index: index, Reason: "its body cannot be decoded: " + err.Error()}
	}
	if len(entry.ProtoReflect().GetUnknown()) != 0 {
		return nil, &HaltError{Index: index, NewerRules: true, Reason: "it has fields that this binary does not know"}
	}
	return entry, nil
}
