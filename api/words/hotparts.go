package words

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// countEach returns how many fields with a number a message has, each a message itself.
func countEach(b []byte, number protowire.Number) (n int, err error) {
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return 0, err
		}
		if b = rest; f.number == number && f.kind == protowire.BytesType {
			n++
		}
	}
	return n, nil
}

// readEach reads the fields with a number, each a message itself, from a copy of b.
func readEach[T any](b []byte, number protowire.Number, read func(*T, []byte) error) ([]T, error) {
	n, err := countEach(b, number)
	if err != nil {
		return nil, err
	}
	b = append([]byte(nil), b...)
	all := make([]T, 0, n)
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return nil, err
		}
		if b = rest; f.number != number || f.kind != protowire.BytesType {
			continue
		}
		var one T
		all = append(all, one)
		if err := read(&all[len(all)-1], f.bytes); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readText appends one text to a list.
func readText(to *[]string, b []byte) error {
	var s string
	err := textOfBytes(&s, b)
	*to = append(*to, s)
	return err
}

// readPair reads an entry of a map with text or number values.
func readPair(b []byte, values protowire.Type) (key, text string, number uint64, err error) {
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return "", "", 0, err
		}
		b = rest
		switch {
		case f.number == 1 && f.kind == protowire.BytesType:
			err = textOfBytes(&key, f.bytes)
		case f.number != 2 || f.kind != values:
		case values == protowire.BytesType:
			err = textOfBytes(&text, f.bytes)
		default:
			number = f.value
		}
		if err != nil {
			return "", "", 0, err
		}
	}
	return key, text, number, nil
}

// pairOfBytes adds an entry to a map of texts.
func pairOfBytes(to *map[string]string, b []byte) error {
	key, value, _, err := readPair(b, protowire.BytesType)
	if err != nil {
		return err
	}
	if *to == nil {
		*to = make(map[string]string)
	}
	(*to)[key] = value
	return nil
}

// limitOfBytes adds an entry to a map of numbers.
func limitOfBytes(to *map[string]int64, b []byte) error {
	key, _, value, err := readPair(b, protowire.VarintType)
	if err != nil {
		return err
	}
	if *to == nil {
		*to = make(map[string]int64)
	}
	(*to)[key] = int64(value)
	return nil
}

// appendRefusal is not hot.
func appendRefusal(b []byte, number protowire.Number, e *rota.Error) []byte {
	if e == nil {
		return b
	}
	wire, err := proto.Marshal(RefusalToWire(e))
	if err != nil { // never: its texts are valid
		wire = nil
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), wire)
}

// mergeRefusal is not hot.
func mergeRefusal(to **rotav1.Refusal, b []byte) error {
	if *to == nil {
		*to = new(rotav1.Refusal)
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(b, *to)
}

// verbFromWire accepts the verbs that this version knows.
func verbFromWire(verb int32) (rota.LeaseVerb, error) {
	if verb < int32(rotav1.LeaseVerb_LEASE_VERB_ACK) || verb > int32(rotav1.LeaseVerb_LEASE_VERB_PROGRESS) {
		return rota.LeaseVerb(verb), unknownVerb(verb)
	}
	return rota.LeaseVerb(verb), nil
}

// failFromWire accepts the kinds of failures that this version knows.
func failFromWire(kind int32) (peer.FailKind, error) {
	if kind < 0 || kind > int32(peer.FailLast) {
		return 0, rota.Refusef(rota.KindInvalid, "fail", "failure kind %d is unknown to this version: use 0 to %d",
			kind, peer.FailLast)
	}
	return peer.FailKind(kind), nil
}
