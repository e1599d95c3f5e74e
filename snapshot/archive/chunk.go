package archive

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rotasched/rota"
)

// EventEntry is what one log entry told, as the state machine encoded it.
type EventEntry struct {
	Index rota.Index
	// Before counts the events of all entries before, Count this one's: at least 1.
	Before uint64
	Count  uint32
	// Chain is the chain over all events before (SPEC §12.1), Prior and Post are
	// the state's digests before and after the entry.
	Chain       [32]byte
	Prior, Post rota.Digest
	// Bytes are the events, which this package never looks into.
	Bytes []byte
}

// End counts the events up to and with this entry's.
func (e *EventEntry) End() uint64 { return e.Before + uint64(e.Count) }

func (e *EventEntry) size() int { return entryFixedBytes + len(e.Bytes) }

const (
	// chunkFormat is the first byte of a chunk.
	chunkFormat = 1
	// chunkHeadBytes is what stands before a chunk's frame.
	chunkHeadBytes = 1 + 4 + 8 + 8 + 8 + 4 + 4 + 4
	// chunkRawMost bounds a chunk before compression: one entry may end tens of
	// thousands of leases.
	chunkRawMost = 64 << 20
	// entryFixedBytes are those of an entry beside its events, about.
	entryFixedBytes = 32 + 16 + 16 + 12
)

// chunkHead is what a chunk says of itself without being decompressed.
type chunkHead struct {
	first, last     rota.Index
	before          uint64
	events, entries uint32
	raw             uint32
}

func (h *chunkHead) end() uint64 { return h.before + uint64(h.events) }

func (h *chunkHead) key() []byte { return binary.BigEndian.AppendUint64(nil, uint64(h.first)) }

// codec is shared: both halves may be used by many goroutines at once.
var codec = sync.OnceValue(func() (c struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}) {
	// Neither call fails with these options. Events are made of what the ones before hold:
	// entropy coding of the rest takes a fifth of the time for chunks a seventh smaller at best.
	c.enc, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithNoEntropyCompression(true))
	c.dec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(chunkRawMost))
	return c
})

// chunkRoom is what EncodeEvents works in. Chunks are an eighth of their events: to take
// room of that size anew for each was a twelfth of what a loaded node allocates.
type chunkRoom struct{ raw, chunk []byte }

// chunkRoomMost is the size up to which room is kept: a chunk of usual size.
const chunkRoomMost = 2 * chunkBytes

var chunkRooms = sync.Pool{New: func() any { return new(chunkRoom) }}

// EncodeEvents makes a chunk of entries that follow on each other: at least one.
// Numbers are big-endian, lengths varints:
//
//	format 1 · CRC32C of all that follows 4 · first index 8 · last index 8 ·
//	events before 8 · events 4 · entries 4 · length before compression 4 · zstd frame
//
// and in the frame for each entry: index less the one before (the first: less the
// first index), events, chain 32, prior 16, post 16, length, bytes.
func EncodeEvents(entries []EventEntry) []byte {
	room := 0
	for i := range entries {
		room += entries[i].size()
	}
	w := chunkRooms.Get().(*chunkRoom)
	raw := slices.Grow(w.raw[:0], room)
	last := entries[0].Index
	var events uint32
	for i := range entries {
		e := &entries[i]
		raw = binary.AppendUvarint(raw, uint64(e.Index-last))
		raw = binary.AppendUvarint(raw, uint64(e.Count))
		raw = append(raw, e.Chain[:]...)
		for _, v := range [...]uint64{e.Prior.Hi, e.Prior.Lo, e.Post.Hi, e.Post.Lo} {
			raw = binary.BigEndian.AppendUint64(raw, v)
		}
		raw = binary.AppendUvarint(raw, uint64(len(e.Bytes)))
		raw = append(raw, e.Bytes...)
		last = e.Index
		events += e.Count
	}
	b := append(w.chunk[:0], chunkFormat, 0, 0, 0, 0)
	for _, v := range [...]uint64{uint64(entries[0].Index), uint64(last), entries[0].Before} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	for _, v := range [...]uint32{events, uint32(len(entries)), uint32(len(raw))} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = codec().enc.EncodeAll(raw, b)
	binary.BigEndian.PutUint32(b[1:], checksum(b[5:]))
	if w.raw, w.chunk = raw, b; cap(raw) <= chunkRoomMost && cap(b) <= chunkRoomMost {
		defer chunkRooms.Put(w)
	}
	return bytes.Clone(b)
}

func damagedEvents(format string, args ...any) error {
	return rota.Refusef(rota.KindInvalid, "events", format, args...)
}

// parseChunkHead reads a head; the checksum is DecodeEvents' to compare.
func parseChunkHead(data []byte) (h chunkHead, err error) {
	if len(data) < chunkHeadBytes {
		return h, damagedEvents("a chunk of events has %d bytes, but its head alone has %d", len(data), chunkHeadBytes)
	}
	if data[0] != chunkFormat {
		return h, damagedEvents("a chunk of events is of format %d: this binary knows %d", data[0], chunkFormat)
	}
	h.first = rota.Index(binary.BigEndian.Uint64(data[5:]))
	h.last = rota.Index(binary.BigEndian.Uint64(data[13:]))
	h.before = binary.BigEndian.Uint64(data[21:])
	h.events = binary.BigEndian.Uint32(data[29:])
	h.entries = binary.BigEndian.Uint32(data[33:])
	h.raw = binary.BigEndian.Uint32(data[37:])
	if h.first > h.last || h.events == 0 || h.entries == 0 || h.entries > h.events || h.raw > chunkRawMost ||
		h.before > math.MaxUint64-uint64(h.events) {
		return h, damagedEvents("the head of a chunk of events contradicts itself")
	}
	return h, nil
}

// DecodeEvents reads a chunk, from a disk or from another node; nothing is handed
// out that did not verify. The entries share one buffer.
func DecodeEvents(data []byte) ([]EventEntry, error) {
	h, err := parseChunkHead(data)
	if err != nil {
		return nil, err
	}
	if has, written := checksum(data[5:]), binary.BigEndian.Uint32(data[1:]); has != written {
		return nil, damagedEvents("a chunk of events has checksum %08x, %08x was written", has, written)
	}
	raw, err := codec().dec.DecodeAll(data[chunkHeadBytes:], make([]byte, 0, min(h.raw, 4*chunkBytes)))
	if err != nil || len(raw) != int(h.raw) {
		return nil, damagedEvents("a chunk of events does not decompress to %d bytes", h.raw)
	}
	if int(h.entries) > len(raw)/(32+16+16) {
		return nil, damagedEvents("a chunk of %d bytes cannot hold %d entries", len(raw), h.entries)
	}
	entries := make([]EventEntry, h.entries)
	last, before := h.first, h.before
	for i := range entries {
		e := &entries[i]
		if raw = e.parse(raw, last, before); raw == nil || (i == 0) != (e.Index == h.first) {
			return nil, damagedEvents("entry %d of a chunk of events cannot be read", i+1)
		}
		last, before = e.Index, e.End()
	}
	if len(raw) != 0 || last != h.last || before != h.before+uint64(h.events) {
		return nil, damagedEvents("a chunk of events does not match its head")
	}
	return entries, nil
}

// parse reads one entry and gives what is left, nil where it is damaged. Only the
// first of a chunk is no step further than the one before.
func (e *EventEntry) parse(raw []byte, last rota.Index, before uint64) []byte {
	step, n := binary.Uvarint(raw)
	if n <= 0 || step > math.MaxInt64 {
		return nil
	}
	raw = raw[n:]
	count, n := binary.Uvarint(raw)
	if n <= 0 || count == 0 || count > math.MaxUint32 || before > math.MaxUint64-count || len(raw) < n+64 {
		return nil
	}
	raw = raw[n:]
	e.Index, e.Before, e.Count = last+rota.Index(step), before, uint32(count)
	copy(e.Chain[:], raw)
	word := func(at int) uint64 { return binary.BigEndian.Uint64(raw[at:]) }
	e.Prior = rota.Digest{Hi: word(32), Lo: word(40)}
	e.Post = rota.Digest{Hi: word(48), Lo: word(56)}
	raw = raw[64:]
	size, n := binary.Uvarint(raw)
	if n <= 0 || size > uint64(len(raw)-n) {
		return nil
	}
	raw = raw[n:]
	e.Bytes = raw[:size:size]
	return raw[size:len(raw):len(raw)]
}
