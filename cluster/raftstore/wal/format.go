package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// A file's header, little endian:
//
//	0  magic "rlog"
//	4  format, 16 bits
//	6  flags, 16 bits: 1 if entries are missing before the first
//	8  number of the file
//	16 index of the first entry
//	24 salt of the checksums of frames, 32 bits, so that bytes in a payload do not pass for a frame
//	28 CRC32C of the above
//
// A frame, padded with zeros to a multiple of eight bytes:
//
//	0  index
//	8  term
//	16 bytes of data, 32 bits
//	20 CRC32C over index, term, type, extensions and data, 32 bits
//	24 bytes of extensions, 16 bits
//	26 type
//	27 flags: 1 for the first frame of a batch
//	28 CRC32C of the salt and the above, 32 bits
//	32 extensions, then data
const (
	magic       = "rlog"
	format      = 1
	headerBytes = 32
	frameBytes  = 32
	alignment   = 8

	flagGap   = 1
	flagFirst = 1

	// Suffix is the end of the names of the files.
	Suffix = ".wal"
)

// castagnoli is the CRC32C table; amd64 and arm64 have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileName returns the name of the file with a number, numberOf is its inverse.
func fileName(number uint64) string { return fmt.Sprintf("%020d%s", number, Suffix) }

func numberOf(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(filepath.Base(name), Suffix)
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil && len(digits) == 20
}

// header is the decoded header of a file.
type header struct {
	number, first uint64
	salt          uint32
	gap           bool
}

func (h header) encode() []byte {
	b := make([]byte, headerBytes)
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[4:], format)
	if h.gap {
		binary.LittleEndian.PutUint16(b[6:], flagGap)
	}
	binary.LittleEndian.PutUint64(b[8:], h.number)
	binary.LittleEndian.PutUint64(b[16:], h.first)
	binary.LittleEndian.PutUint32(b[24:], h.salt)
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	return b
}

func decodeHeader(b []byte) (h header, err error) {
	switch {
	case len(b) < headerBytes:
		return h, fmt.Errorf("its header has %d of %d bytes", len(b), headerBytes)
	case binary.LittleEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli):
		return h, errors.New("its header does not match its checksum")
	case string(b[:4]) != magic:
		return h, errors.New("it is not a log")
	case binary.LittleEndian.Uint16(b[4:]) != format:
		return h, fmt.Errorf("it has format %d, this binary knows %d", binary.LittleEndian.Uint16(b[4:]), format)
	}
	return header{number: binary.LittleEndian.Uint64(b[8:]), first: binary.LittleEndian.Uint64(b[16:]),
		salt: binary.LittleEndian.Uint32(b[24:]), gap: binary.LittleEndian.Uint16(b[6:])&flagGap != 0}, nil
}

// frame is the decoded header of a frame.
type frame struct {
	index, term uint64
	data        int
	extensions  int
	sum         uint32
	kind        raft.LogType
	first       bool
}

// size is the number of bytes of a frame in its file.
func (f frame) size() int64 {
	n := int64(frameBytes + f.extensions + f.data)
	return (n + alignment - 1) / alignment * alignment
}

// errTooLarge reports an entry that has no room in a frame.
var errTooLarge = errors.New("an entry has more than 4 GiB of data or 64 KiB of extensions")

func appendFrame(b []byte, e *raft.Log, salt uint32, first bool) ([]byte, error) {
	if uint64(len(e.Data)) > math.MaxUint32 || len(e.Extensions) > math.MaxUint16 {
		return b, errTooLarge
	}
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, e.Index)
	b = binary.LittleEndian.AppendUint64(b, e.Term)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Data)))
	b = binary.LittleEndian.AppendUint32(b, entrySum(e.Index, e.Term, e.Type, e.Extensions, e.Data))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.Extensions)))
	b = append(b, byte(e.Type))
	if first {
		b = append(b, flagFirst)
	} else {
		b = append(b, 0)
	}
	b = binary.LittleEndian.AppendUint32(b, frameSum(b[at:], salt))
	b = append(b, e.Extensions...)
	b = append(b, e.Data...)
	for (len(b)-at)%alignment != 0 {
		b = append(b, 0)
	}
	return b, nil
}

// decodeFrame reads the header of a frame; ok is false if it does not match its checksum.
func decodeFrame(b []byte, salt uint32) (f frame, ok bool) {
	if len(b) < frameBytes || binary.LittleEndian.Uint32(b[28:]) != frameSum(b[:28], salt) {
		return f, false
	}
	return frame{
		index:      binary.LittleEndian.Uint64(b),
		term:       binary.LittleEndian.Uint64(b[8:]),
		data:       int(binary.LittleEndian.Uint32(b[16:])),
		sum:        binary.LittleEndian.Uint32(b[20:]),
		extensions: int(binary.LittleEndian.Uint16(b[24:])),
		kind:       raft.LogType(b[26]),
		first:      b[27]&flagFirst != 0,
	}, true
}

// intact reports whether the frame at the start of b is complete and matches its checksums.
func intact(b []byte, salt uint32) (f frame, ok bool) {
	f, ok = decodeFrame(b, salt)
	if !ok || int64(len(b)) < f.size() {
		return f, false
	}
	body := b[frameBytes : frameBytes+f.extensions+f.data]
	for _, pad := range b[frameBytes+len(body) : f.size()] {
		if pad != 0 {
			return f, false
		}
	}
	return f, f.sum == entrySum(f.index, f.term, f.kind, body[:f.extensions], body[f.extensions:])
}

func frameSum(head []byte, salt uint32) uint32 { return crc32.Update(salt, castagnoli, head) }

// entrySum returns the CRC32C over the fields of an entry; the length of the first variable field precedes them.
func entrySum(index, term uint64, kind raft.LogType, extensions, data []byte) uint32 {
	var head [25]byte
	binary.LittleEndian.PutUint64(head[0:], index)
	binary.LittleEndian.PutUint64(head[8:], term)
	head[16] = byte(kind)
	binary.LittleEndian.PutUint64(head[17:], uint64(len(extensions)))
	sum := crc32.Update(0, castagnoli, head[:])
	sum = crc32.Update(sum, castagnoli, extensions)
	return crc32.Update(sum, castagnoli, data)
}
