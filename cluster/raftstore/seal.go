package raftstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// castagnoli is the CRC32C table; amd64 and arm64 have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealBytes is the number of bytes that a checksum adds to an entry or a value.
const sealBytes = 4

// DamagedEntryError reports that an entry read from the log differs from the one written. Continuing would apply a
// command that was never decided.
type DamagedEntryError struct {
	// Index is the entry's position in the log.
	Index uint64
	// Reason states the mismatch.
	Reason string
}

// Error implements error.
func (e *DamagedEntryError) Error() string {
	return fmt.Sprintf("log entry %d is damaged: %s", e.Index, e.Reason)
}

// DamagedValueError reports that the stored term or vote differs from the one written.
type DamagedValueError struct {
	// Key is the value's name in the stable store.
	Key string
	// Reason states the mismatch.
	Reason string
}

// Error implements error.
func (e *DamagedValueError) Error() string {
	return fmt.Sprintf("stored value %s is damaged: %s", e.Key, e.Reason)
}

// sealEntry returns a copy of entry with a checksum over index, term, type, extensions and data appended to its
// Extensions. It never changes the caller's struct: raft's cache holds that pointer, and the leader sends it to
// followers unchanged. A checksum in it would travel, be treated as part of the entry by the follower, and be sealed
// again. This way, Extensions are sent as the proposer set them (empty in rota), and each node seals what it received
// for its own disk. AppendedAt is left out: it affects nothing.
func sealEntry(entry *raft.Log) *raft.Log {
	sealed := *entry
	sealed.Extensions = make([]byte, 0, len(entry.Extensions)+sealBytes)
	sealed.Extensions = append(sealed.Extensions, entry.Extensions...)
	sealed.Extensions = binary.LittleEndian.AppendUint32(sealed.Extensions, entrySum(entry, entry.Extensions))
	return &sealed
}

// openEntry checks the seal of the entry read at index and removes it.
func openEntry(index uint64, entry *raft.Log) error {
	if entry.Index != index {
		return &DamagedEntryError{index, fmt.Sprintf("it was replaced by entry %d", entry.Index)}
	}
	cut := len(entry.Extensions) - sealBytes
	if cut < 0 {
		return &DamagedEntryError{index, "it has no checksum"}
	}
	kept := entry.Extensions[:cut]
	if stored := binary.LittleEndian.Uint32(entry.Extensions[cut:]); stored != entrySum(entry, kept) &&
		!planted.crcOff() {
		return &DamagedEntryError{index, "its checksum does not match"}
	}
	if entry.Extensions = kept; cut == 0 {
		entry.Extensions = nil
	}
	return nil
}

// entrySum returns the CRC32C over the fields of an entry; the length of the first variable field precedes them.
func entrySum(entry *raft.Log, extensions []byte) uint32 {
	var head [25]byte
	binary.LittleEndian.PutUint64(head[0:], entry.Index)
	binary.LittleEndian.PutUint64(head[8:], entry.Term)
	head[16] = byte(entry.Type)
	binary.LittleEndian.PutUint64(head[17:], uint64(len(extensions)))
	sum := crc32.Update(0, castagnoli, head[:])
	sum = crc32.Update(sum, castagnoli, extensions)
	return crc32.Update(sum, castagnoli, entry.Data)
}

// sealValue appends a checksum over key and value to value.
func sealValue(key, value []byte) []byte {
	sealed := make([]byte, 0, len(value)+sealBytes)
	sealed = append(sealed, value...)
	return binary.LittleEndian.AppendUint32(sealed, valueSum(key, value))
}

// openValue checks the seal of a stored value and removes it.
func openValue(key, sealed []byte) ([]byte, error) {
	cut := len(sealed) - sealBytes
	if cut < 0 {
		return nil, &DamagedValueError{string(key), "it has no checksum"}
	}
	if binary.LittleEndian.Uint32(sealed[cut:]) != valueSum(key, sealed[:cut]) && !planted.crcOff() {
		return nil, &DamagedValueError{string(key), "its checksum does not match"}
	}
	return sealed[:cut:cut], nil
}

func valueSum(key, value []byte) uint32 {
	sum := crc32.Update(uint32(len(key)), castagnoli, key)
	return crc32.Update(sum, castagnoli, value)
}

// guardDamage turns a panic of bbolt, or a fault of its memory map, into an error. Of bbolt's pages only the two heads
// have checksums, and it panics on damage in the others. Use: defer guardDamage(path, &err).
func guardDamage(path string, err *error) {
	if what := recover(); what != nil {
		*err = damaged(path, fmt.Sprintf("bbolt cannot read it (%v)", what))
	}
}
