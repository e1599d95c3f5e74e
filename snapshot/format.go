package snapshot

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/zeebo/xxh3"

	"github.com/rotasched/rota"
)

// Source is a frozen state: header and records in their order.
type Source interface {
	// Info describes the state. Write sets Format, Records and Bytes.
	Info() rota.SnapshotInfo
	// Records yields every record. A record need only stay valid until yield returns; an error of yield ends the walk
	// and is returned.
	Records(yield func(kind byte, record []byte) error) error
}

// Sink builds a new state from records. Finish verifies the header's digest against the loaded records before it
// returns the state.
type Sink[S any] interface {
	// Add receives the next record. Its bytes are valid only until Add returns.
	Add(kind byte, record []byte) error
	// Finish is called once, and only if every byte of the file verified.
	Finish() (S, error)
}

const (
	// Format is the format that this binary writes, and the newest it reads.
	Format uint32 = 1
	// MaxRecordBytes bounds one record. It is far above what one log entry can create (limits.MaxEntryBytes); a table
	// that grows is kept as many records.
	MaxRecordBytes = 16 << 20
	// BlockBytes is the maximum of uncompressed bytes in a block of several records. Larger blocks hardly compress
	// better and cost every reader memory.
	BlockBytes = 256 << 10

	// magic begins the file: a byte beyond ASCII, then both line endings and the DOS end of file, so that a transfer in
	// text mode is detected at once (as in PNG).
	magic = "\x89ROTA\r\n\x1a"
	// prefixBytes are magic, format, two bytes of zero and header length.
	prefixBytes = len(magic) + 2 + 2 + 4
	// maxHeaderBytes bounds the header of every format, this one's and later ones'.
	maxHeaderBytes = 4 << 10
	// headBytes is the size of a block's head: three words and their checksum.
	headBytes = 16
	// maxBlockBytes is the size of a block with one record of MaxRecordBytes, including kind and length.
	maxBlockBytes = 1 + binary.MaxVarintLen32 + MaxRecordBytes
	// endBytes is the size of the end marker's body: records, bytes, hash.
	endBytes = 8 + 8 + 16
	// fixedHeaderBytes is the size of the header without its cluster id.
	fixedHeaderBytes = 1 + 5*8 + 2*8 + 4
)

// castagnoli is the table of CRC32C, which the processor computes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// maxFrameBytes bounds zstd's output for n incompressible bytes: a frame header, and three bytes for every 64 KiB.
func maxFrameBytes(n uint32) uint32 { return n + n>>12 + 64 }

// appendPreamble appends everything that precedes the first block.
func appendPreamble(b []byte, info rota.SnapshotInfo) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, uint16(info.Format))
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(fixedHeaderBytes+len(info.ClusterID)))
	b = appendHeader(b, info)
	return binary.LittleEndian.AppendUint32(b, checksum(b[start:]))
}

func appendHeader(b []byte, info rota.SnapshotInfo) []byte {
	b = append(b, byte(len(info.ClusterID)))
	b = append(b, info.ClusterID...)
	for _, n := range [...]uint64{info.Incarnation, uint64(info.Index), info.Term,
		uint64(info.Clock), uint64(info.Date), info.Digest.Hi, info.Digest.Lo} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return binary.LittleEndian.AppendUint32(b, info.RulesVersion)
}

// parseHeader parses the output of appendHeader and rejects anything else.
func parseHeader(b []byte) (info rota.SnapshotInfo, ok bool) {
	if len(b) < fixedHeaderBytes || len(b) != fixedHeaderBytes+int(b[0]) {
		return info, false
	}
	n := 1 + int(b[0])
	info.ClusterID = rota.ClusterID(b[1:n])
	if info.ClusterID != "" && !rota.ValidID(info.ClusterID) {
		return info, false
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[n+8*i:]) }
	info.Incarnation = word(0)
	info.Index = rota.Index(word(1))
	info.Term = word(2)
	info.Clock = rota.Clock(word(3))
	info.Date = rota.Date(word(4))
	info.Digest = rota.Digest{Hi: word(5), Lo: word(6)}
	info.RulesVersion = binary.LittleEndian.Uint32(b[n+8*7:])
	info.Format = Format
	return info, true
}

// head precedes a block's frame. raw = 0 marks the end of the file: then the body of packed = endBytes bytes is not
// compressed.
type head struct {
	// raw and packed count the bytes of the block before and after compression.
	raw, packed uint32
	// sum is the checksum of the packed bytes.
	sum uint32
}

// put writes the head with its own checksum into the first headBytes of b. Without that checksum, a flipped bit in a
// length would look like a truncated file.
func (h head) put(b []byte) {
	binary.LittleEndian.PutUint32(b[0:], h.raw)
	binary.LittleEndian.PutUint32(b[4:], h.packed)
	binary.LittleEndian.PutUint32(b[8:], h.sum)
	binary.LittleEndian.PutUint32(b[12:], checksum(b[:12]))
}

// parseHead parses a head; it returns the head's computed checksum and the stored one.
func parseHead(b []byte) (h head, has, written uint32) {
	h.raw = binary.LittleEndian.Uint32(b[0:])
	h.packed = binary.LittleEndian.Uint32(b[4:])
	h.sum = binary.LittleEndian.Uint32(b[8:])
	return h, checksum(b[:12]), binary.LittleEndian.Uint32(b[12:])
}

// end is the body of the end marker.
type end struct {
	records, bytes uint64
	// hash covers the preamble and the uncompressed bytes of all blocks, so that a block that was lost, duplicated,
	// moved or copied from another file is detected.
	hash xxh3.Uint128
}

func (e end) append(b []byte) []byte {
	for _, n := range [...]uint64{e.records, e.bytes, e.hash.Hi, e.hash.Lo} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func parseEnd(b []byte) end {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return end{records: word(0), bytes: word(1), hash: xxh3.Uint128{Hi: word(2), Lo: word(3)}}
}
