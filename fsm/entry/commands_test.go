package entry

import (
	"bytes"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/proto"
)

func fewOps() []*fsmpb.Op {
	full := submitOp(fullSpec())
	full.GetSubmit().Minted = true
	return []*fsmpb.Op{full, submitOp(jobSpec("b", []byte("x"))), {Op: &fsmpb.Op_Lease{Lease: fullLease()}},
		{Op: &fsmpb.Op_Lease{Lease: &fsmpb.LeaseOp{}}},
		{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}, submitOp(&rota.JobSpec{ID: "c",
			Labels: map[string]string{"a": "b"},
			Limits: map[string]int64{"l": 1}}), {Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{}}},
		submitOp(&rota.JobSpec{ID: "large", Payload: make([]byte, 1<<18)})}
}

// TestAppendOp checks that operations encoded one by one equal package proto's encoding of all of them.
func TestAppendOp(t *testing.T) {
	t.Parallel()
	ops := fewOps()
	var got []byte
	for _, op := range ops {
		var err error
		if got, err = AppendOp(got, op); err != nil {
			t.Fatal(err)
		}
	}
	want, err := proto.Marshal(&fsmpb.Commands{Ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("encoded %x\npackage proto: %x", got, want)
	}
	t.Run("a text that is none is refused as ever", func(t *testing.T) {
		t.Parallel()
		for _, op := range []*fsmpb.Op{submitOp(&rota.JobSpec{ID: "\xff"}),
			submitOp(&rota.JobSpec{ID: "a", DataKeys: []string{"\xff"}}),
			{Op: &fsmpb.Op_Lease{Lease: &fsmpb.LeaseOp{Text: "\xff"}}}} {
			if _, err := AppendOp(nil, op); err == nil {
				t.Errorf("%v was encoded: no node could read the entry", op)
			}
		}
	})
	t.Run("what a newer binary says is kept", func(t *testing.T) {
		t.Parallel()
		newer := proto.Clone(ops[0]).(*fsmpb.Op)
		newer.GetSubmit().GetSpec().ProtoReflect().SetUnknown([]byte{0xa0, 0x06, 1})
		got, err := AppendOp(nil, newer)
		want, failed := proto.Marshal(&fsmpb.Commands{Ops: []*fsmpb.Op{newer}})
		if err != nil || failed != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x, %v; package proto: %x, %v", got, err, want, failed)
		}
	})
}

// TestSealCommands checks that an entry of encoded operations equals the entry of the operations.
func TestSealCommands(t *testing.T) {
	t.Parallel()
	ops := fewOps()
	for _, head := range []*fsmpb.Entry{{}, {Term: 3, NowMs: -5},
		{Term: 1 << 40, NowMs: 12_345, WallMs: []int64{1, 2, -3}}} {
		var parts [][]byte
		for i := range ops {
			part, err := AppendOp(nil, ops[i])
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 1 {
				parts[len(parts)-1] = append(parts[len(parts)-1], part...)
			} else {
				parts = append(parts, part)
			}
		}
		got, err := SealCommands(head, parts, FirstRules)
		if err != nil {
			t.Fatal(err)
		}
		entry := proto.Clone(head).(*fsmpb.Entry)
		entry.Ops = ops
		want, err := Seal(entry, FirstRules)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("sealed %x\nwant   %x", got, want)
		}
	}
	for _, broken := range [][]byte{{commandsTag}, {commandsTag, 5, 1}, {entryTag, 0}, {commandsTag, 0xff}} {
		if _, err := SealCommands(&fsmpb.Entry{}, [][]byte{broken}, FirstRules); err == nil {
			t.Errorf("%x was sealed", broken)
		}
	}
}

// FuzzCommands checks that a reader accepts the same input as package proto, with the same result, and that its output
// to be sealed can be opened.
func FuzzCommands(f *testing.F) {
	add := func(ops ...*fsmpb.Op) {
		data, err := proto.Marshal(&fsmpb.Commands{Ops: ops})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data, data...))
		for i := range min(len(data), 300) {
			f.Add(data[:i])
			broken := bytes.Clone(data)
			broken[i] ^= 0x80
			f.Add(broken)
		}
	}
	few := fewOps()
	add(few[:len(few)-1]...)
	add(few[2])
	add(&fsmpb.Op{}, few[1])
	f.Add([]byte{0x8a, 0, 0}) // a tag longer than necessary
	r := &CommandReader{}
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 20
		var want fsmpb.Commands
		good := proto.Unmarshal(data, &want) == nil && len(want.GetOps()) > 0 && len(want.GetOps()) <= most
		ops, encoded, known, ok := r.Read(data, most)
		if ok != good || ok && known == unknown(want.ProtoReflect()) {
			t.Fatalf("read: %v, known: %v, by package proto: %v", ok, known, good)
		}
		if !ok || !known {
			return
		}
		want.ProtoReflect().SetUnknown(nil)
		if !proto.Equal(&fsmpb.Commands{Ops: ops}, &want) {
			t.Fatalf("read %v, but package proto %v", ops, &want)
		}
		sealed, err := SealCommands(&fsmpb.Entry{Term: 1}, [][]byte{encoded}, FirstRules)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := Open(1, sealed, FirstRules, nil)
		if err != nil {
			t.Fatalf("an entry that no node can open: %v", err)
		}
		if !proto.Equal(entry, &fsmpb.Entry{Term: 1, Ops: want.GetOps()}) {
			t.Fatalf("entry %v, forwarded %v", entry, &want)
		}
	})
}

// FuzzOutcomes checks that outcomes are decoded as by package proto, or not at all.
func FuzzOutcomes(f *testing.F) {
	same := &fsmpb.Outcome{JobState: 2, DeadlineMs: 7}
	for _, list := range [][]*fsmpb.Outcome{{same, same, same}, {same, {}, {}, {Kind: 3, Text: "no"}, same}, {{}}, {}} {
		got, err := AppendOutcomes(nil, list, 9)
		want, failed := proto.Marshal(&fsmpb.Outcomes{Outcomes: list, Index: 9})
		if err != nil || failed != nil || !bytes.Equal(got, want) {
			f.Fatalf("%x, %v; package proto: %x, %v", got, err, want, failed)
		}
		f.Add(got, len(list))
	}
	f.Fuzz(func(t *testing.T, data []byte, count int) {
		if count < 0 || count > 100 {
			return
		}
		outcomes, index, ok := OpenOutcomes(data, count)
		if !ok {
			return
		}
		var want fsmpb.Outcomes
		if err := proto.Unmarshal(data, &want); err != nil ||
			!proto.Equal(&want, &fsmpb.Outcomes{Outcomes: outcomes, Index: index}) {
			t.Fatalf("read %v at %d, but package proto %v, %v", outcomes, index, &want, err)
		}
	})
}

func BenchmarkCommands(b *testing.B) {
	ops := make([]*fsmpb.Op, 0, 100)
	for len(ops) < cap(ops) {
		ops = append(ops, submitOp(&rota.JobSpec{ID: "run-12345-000017", Queue: "bench", Type: "bench",
			Tenant: "default", Priority: 5,
			Payload: make([]byte, 256)}), &fsmpb.Op{Op: &fsmpb.Op_Lease{Lease: &fsmpb.LeaseOp{Verb: 3,
			Lease: make([]byte, 32), Job: "run-12345-000017",
			Worker: "run-12345-w1", Session: 7, Output: make([]byte, 32), OutputDigest: make([]byte, 32)}}})
	}
	data, err := proto.Marshal(&fsmpb.Commands{Ops: ops})
	if err != nil {
		b.Fatal(err)
	}
	// A leader's work on commands on their way into an entry, and its earlier implementation.
	b.Run("read_and_seal", func(b *testing.B) {
		b.ReportAllocs()
		r := &CommandReader{}
		for b.Loop() {
			_, encoded, _, ok := r.Read(data, len(ops))
			if _, err := SealCommands(&fsmpb.Entry{Term: 3}, [][]byte{encoded}, FirstRules); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("unmarshal_and_seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c fsmpb.Commands
			if err := proto.Unmarshal(data, &c); err != nil {
				b.Fatal(err)
			}
			for _, op := range c.GetOps() {
				_ = proto.Size(op)
			}
			if _, err := Seal(&fsmpb.Entry{Term: 3, Ops: c.GetOps()}, FirstRules); err != nil {
				b.Fatal(err)
			}
		}
	})
}
