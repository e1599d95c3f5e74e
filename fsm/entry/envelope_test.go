package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func TestEnvelope(t *testing.T) {
	t.Parallel()
	data, err := Seal(&fsmpb.Entry{Term: 1, Ops: []*fsmpb.Op{submitOp(jobSpec("j", []byte("x")))}}, FirstRules)
	if err != nil {
		t.Fatal(err)
	}
	d := &Decoder{}
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			if _, err := Open(1, data, FirstRules, d); err == nil {
				t.Fatalf("bit %d of byte %d: flipped and accepted", bit, i)
			}
			data[i] ^= 1 << bit
		}
	}
	for n := range data {
		if _, err := Open(1, data[:n], FirstRules, d); err == nil {
			t.Fatalf("%d of %d bytes: accepted", n, len(data))
		}
	}
	other := bytes.Clone(data)
	binary.BigEndian.PutUint16(other[6:], 36)
	_, err = Open(1, closeEnvelope(other), FirstRules, d)
	const want = "entry 1: it was written by draft 36 of rota, from before its first release: start with an empty --data, " +
		"or run the binary that wrote it"
	if rota.KindOf(err) != rota.KindConflict || err.Error() != want {
		t.Fatalf("a draft's entry: %v, want %s", err, want)
	}
	// The meaning of those two bytes under newer rules is unknown here.
	binary.BigEndian.PutUint16(other[4:], FirstRules+1)
	if _, err = Open(1, closeEnvelope(other), FirstRules, d); err == nil ||
		!strings.Contains(err.Error(), "needs rules version 2, this binary knows 1") {
		t.Fatalf("an entry of newer rules: %v", err)
	}
	if e, err := Open(1, data, FirstRules, d); err != nil || e.GetTerm() != 1 {
		t.Fatalf("after all these: %v, %v", e, err)
	}
	if _, err := Seal(&fsmpb.Entry{Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: "\xff"}}}}},
		FirstRules); err == nil {
		t.Fatal("text that is not UTF-8 was sealed: no node could decode it")
	}
}

// TestSeal_needsWhatIsInForce checks that entries need the version in force and no newer one.
func TestSeal_needsWhatIsInForce(t *testing.T) {
	t.Parallel()
	for _, v := range []uint32{1, 2, 65535} {
		data, err := Seal(&fsmpb.Entry{}, v)
		if err != nil || uint32(binary.BigEndian.Uint16(data[4:])) != v {
			t.Errorf("version %d: %v, % x", v, err, data)
		}
	}
	for _, v := range []uint32{0, 65536} {
		if _, err := Seal(&fsmpb.Entry{}, v); err == nil {
			t.Errorf("an entry was sealed for version %d", v)
		}
	}
}

// BenchmarkEnvelope measures an entry's bytes: sealed by the leader, checked and read on every node. An operation is an
// entry of a hundred submissions of 256 bytes.
func BenchmarkEnvelope(b *testing.B) {
	entry := &fsmpb.Entry{Term: 1, NowMs: 5}
	for i := range 100 {
		entry.Ops = append(entry.Ops, submitOp(jobSpec(fmt.Sprintf("job-%09d", i), make([]byte, 256))))
	}
	data, err := Seal(entry, FirstRules)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("seal", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Seal(entry, FirstRules); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		d := &Decoder{}
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Open(1, data, FirstRules, d); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open by package proto", func(b *testing.B) {
		body, err := proto.Marshal(entry)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			var e fsmpb.Entry
			if err := proto.Unmarshal(body, &e); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// jobSpec returns a plain job.
func jobSpec(id string, payload []byte) *rota.JobSpec {
	s := rota.NewJobSpec("work", payload)
	s.ID, s.Tenant = rota.JobID(id), rota.DefaultTenant
	return &s
}

func submitOp(s *rota.JobSpec) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: SpecOp(s)}}}
}

// TestOpen_whatIsNotKnown checks that an entry of the rules in force with a field that this binary does not know, at
// any depth, is not applied without it, and that commands with such a field are recognized.
func TestOpen_whatIsNotKnown(t *testing.T) {
	t.Parallel()
	strange := protowire.AppendVarint(protowire.AppendTag(nil, 900, protowire.VarintType), 7)
	mark := func(m proto.Message) { m.ProtoReflect().SetUnknown(strange) }
	for name, plant := range map[string]func() *fsmpb.Entry{
		"an entry": func() *fsmpb.Entry { e := &fsmpb.Entry{Term: 1}; mark(e); return e },
		"an operation": func() *fsmpb.Entry {
			op := &fsmpb.Op{}
			mark(op)
			return &fsmpb.Entry{Ops: []*fsmpb.Op{submitOp(jobSpec("a", nil)), op}}
		},
		"a job's spec": func() *fsmpb.Entry {
			op := submitOp(jobSpec("a", nil))
			mark(op.GetSubmit().GetSpec())
			return &fsmpb.Entry{Ops: []*fsmpb.Op{op}}
		},
		"a lease's verb": func() *fsmpb.Entry {
			l := fullLease()
			mark(l)
			return &fsmpb.Entry{Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Lease{Lease: l}}}}
		},
		"a pair of a round": func() *fsmpb.Entry {
			pair := &fsmpb.Pair{Job: "j"}
			mark(pair)
			return &fsmpb.Entry{Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{Pairs: []*fsmpb.Pair{{Job: "i"}, pair}}}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := plant()
			data, err := Seal(e, FirstRules)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []*Decoder{nil, {}} {
				_, err := Open(1, data, FirstRules, d)
				var halt *HaltError
				if !errors.As(err, &halt) || !halt.NewerRules ||
					!strings.Contains(err.Error(), "does not know: this binary is too old for the cluster") {
					t.Errorf("with a decoder %v: %v", d != nil, err)
				}
			}
			if len(e.GetOps()) == 0 {
				return
			}
			commands, err := proto.Marshal(&fsmpb.Commands{Ops: e.GetOps()})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, known, ok := new(CommandReader).Read(commands, 10); known || !ok {
				t.Errorf("commands: known %v, read %v", known, ok)
			}
		})
	}
}
