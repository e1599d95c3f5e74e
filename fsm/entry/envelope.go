package entry

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/proto"
)

// The envelope of a log entry: magic, rules version, two zero bytes, CRC32C over these and the body, then the body: an
// fsmpb.Entry.
const (
	envelopeMagic = "RTL1"
	envelopeBytes = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// HaltError reports that a node cannot apply an entry and must stop: continuing would make it differ from the others.
type HaltError struct {
	Index  rota.Index
	Reason string
	// NewerRules reports that the entry is sound but this binary is too old.
	NewerRules bool
	// Cause is a refusal that names its remedy; nil for any other error.
	Cause error
}

// Error implements error.
func (e *HaltError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("entry %d: %v", e.Index, e.Cause)
	}
	if e.NewerRules {
		return fmt.Sprintf(
			"entry %d: %s: this binary is too old for the cluster, start a newer one on this data directory",
			e.Index, e.Reason)
	}
	return fmt.Sprintf("entry %d: %s: this node's copy of the log is damaged; move its data directory away and "+
		"join again as a new node with a new id", e.Index, e.Reason)
}

// Unwrap returns the cause.
func (e *HaltError) Unwrap() error { return e.Cause }

// Seal puts an entry into its envelope under the rules version in force. A node that does not know that version stops
// at the entry; with the sealing binary's own version, every older node would stop at once.
func Seal(entry *fsmpb.Entry, rules uint32) ([]byte, error) {
	buf, err := newEnvelope(rules, proto.Size(entry))
	if err != nil {
		return nil, err
	}
	buf, err = proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(buf, entry)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	return closeEnvelope(buf), nil
}

// newEnvelope starts an envelope with room for a body.
func newEnvelope(rules uint32, body int) ([]byte, error) {
	if rules < FirstRules || rules > MaxRules {
		return nil, fmt.Errorf("encode entry: no rules have version %d", rules)
	}
	buf := make([]byte, envelopeBytes, envelopeBytes+body)
	copy(buf, envelopeMagic)
	binary.BigEndian.PutUint16(buf[4:], uint16(rules))
	return buf, nil
}

// closeEnvelope writes the checksum.
func closeEnvelope(buf []byte) []byte {
	binary.BigEndian.PutUint32(buf[8:], sum(buf))
	return buf
}

func sum(envelope []byte) uint32 {
	return crc32.Update(crc32.Checksum(envelope[4:8], castagnoli), castagnoli, envelope[envelopeBytes:])
}

// Open checks an envelope and decodes its content, for a binary that knows the rules up to version knows. d provides
// reusable buffers and may be nil. The checksum is checked before the decoder sees a byte. An error is a *HaltError.
func Open(index rota.Index, data []byte, knows uint32, d *Decoder) (*fsmpb.Entry, error) {
	if len(data) < envelopeBytes || string(data[:4]) != envelopeMagic {
		return nil, &HaltError{Index: index, Reason: "no rota entry (its first bytes are not " + envelopeMagic + ")"}
	}
	if got, want := sum(data), binary.BigEndian.Uint32(data[8:]); got != want && !planted.crcOff() {
		return nil, &HaltError{Index: index, Reason: fmt.Sprintf("checksum is %08x, %08x was written", got, want)}
	}
	if v := uint32(binary.BigEndian.Uint16(data[4:])); v > knows {
		return nil, TooOld(index, v, knows)
	}
	if draft := binary.BigEndian.Uint16(data[6:]); draft != 0 {
		return nil, &HaltError{Index: index, Cause: rota.Refusef(rota.KindConflict, "format",
			"it was written by draft %d of rota, from before "+
				"its first release: start with an empty --data, or run the binary that wrote it", draft)}
	}
	entry, err := d.decode(data[envelopeBytes:])
	if err == errUnknown {
		return nil, &HaltError{Index: index, NewerRules: true, Reason: err.Error()}
	}
	if err != nil {
		return nil, &HaltError{Index: index, Reason: "its body cannot be decoded: " + err.Error()}
	}
	return entry, nil
}
