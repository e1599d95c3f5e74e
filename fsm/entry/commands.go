package entry

import (
	"encoding/binary"
	"fmt"

	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Operations are encoded once, where they are made: as fsmpb.Commands, which is what a
// node forwards. Into an entry they go as they are. The leader reads what was forwarded,
// as no entry may hold what cannot be read, but does not write it anew.

// The tags of an operation in fsmpb.Commands and in fsmpb.Entry: one byte each, so that
// one form is made the other by that byte.
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

// SealCommands is Seal for an entry whose operations are encoded already; head has none.
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

// CommandReader reads what other nodes forwarded into room that it keeps.
type CommandReader struct{ decoder Decoder }

// Read decodes fsmpb.Commands of at most so many operations, which are valid until the
// next; encoded is what SealCommands takes. ok says that it could, and that there are some;
// known that they hold nothing that this binary does not know.
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

// unusualCommands leaves it to package proto.
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

// appendNumber leaves out what is zero, as proto3 does.
func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}
