package entry

import (
	"encoding/binary"
	"fmt"

	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Operations are encoded once, where they are created, as fsmpb.Commands, the form that nodes forward. They are copied
// into an entry unchanged. The leader decodes forwarded operations, as an entry must not contain anything undecodable,
// but does not encode them again.

// The tags of an operation in fsmpb.Commands and in fsmpb.Entry: one byte each, so changing that byte converts one form
// to the other.
const (
	commandsTag = commandsOps<<3 | byte(protowire.BytesType)
	entryTag    = entryOps<<3 | byte(protowire.BytesType)
)

// AppendOp appends an operation to encoded fsmpb.Commands.
func AppendOp(b []byte, op *fsmpb.Op) ([]byte, error) {
	b = binary.AppendUvarint(append(b, commandsTag), uint64(proto.Size(op)))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, op)
	if err != nil {
		return nil, fmt.Errorf("encode operation: %w", err)
	}
	return b, nil
}

// SealCommands is Seal for an entry whose operations are already encoded; head contains none.
func SealCommands(head *fsmpb.Entry, commands [][]byte, rules uint32) ([]byte, error) {
	size := 0
	for _, b := range commands {
		size += len(b)
	}
	buf, err := newEnvelope(rules, size+3*(1+binary.MaxVarintLen64)+len(head.GetWallMs())*binary.MaxVarintLen64)
	if err != nil {
		return nil, err
	}
	buf = appendNumber(buf, entryTerm, head.GetTerm())
	buf = appendNumber(buf, entryNowMs, uint64(head.GetNowMs()))
	for _, b := range commands {
		for len(b) > 0 {
			n, k := binary.Uvarint(b[1:])
			if b[0] != commandsTag || k <= 0 || n > uint64(len(b)-1-k) {
				return nil, fmt.Errorf("encode entry: operations are not encoded as commands")
			}
			one := 1 + k + int(n)
			buf = append(append(buf, entryTag), b[1:one]...)
			b = b[one:]
		}
	}
	if walls := head.GetWallMs(); len(walls) > 0 {
		if buf, err = (proto.MarshalOptions{}).MarshalAppend(buf, &fsmpb.Entry{WallMs: walls}); err != nil {
			return nil, fmt.Errorf("encode entry: %w", err)
		}
	}
	return closeEnvelope(buf), nil
}

// CommandReader decodes what other nodes forwarded into buffers that it reuses.
type CommandReader struct{ decoder Decoder }

// Read decodes fsmpb.Commands of at most `most` operations, which are valid until the next call; encoded is the
// argument for SealCommands. ok reports whether that succeeded and there is at least one operation; known whether they
// contain nothing unknown to this binary.
func (r *CommandReader) Read(data []byte, most int) (ops []*fsmpb.Op, encoded []byte, known, ok bool) {
	count := 0
	for rest := data; len(rest) > 0; count++ {
		plain := rest[0] == commandsTag
		if f, usual := nextField(&rest); !plain || !usual || f.kind != protowire.BytesType {
			return unusualCommands(data, most)
		}
	}
	if count == 0 || count > most {
		return nil, nil, false, false
	}
	d := &r.decoder
	d.begin(count)
	for rest := data; len(rest) > 0; {
		f, _ := nextField(&rest)
		op, read := d.op(f.bytes)
		if !read {
			return unusualCommands(data, most)
		}
		d.list = append(d.list, op)
	}
	return d.list, data, true, true
}

// unusualCommands is Read using package proto.
func unusualCommands(data []byte, most int) (ops []*fsmpb.Op, encoded []byte, known, ok bool) {
	var all fsmpb.Commands
	if proto.Unmarshal(data, &all) != nil || len(all.GetOps()) == 0 || len(all.GetOps()) > most {
		return nil, nil, false, false
	}
	for _, op := range all.GetOps() {
		var err error
		if encoded, err = AppendOp(encoded, op); err != nil {
			return nil, nil, false, false
		}
	}
	return all.GetOps(), encoded, !unknown(all.ProtoReflect()), true
}

// appendNumber omits zero, as proto3 does.
func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}
