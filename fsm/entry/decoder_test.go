package entry

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// FuzzDecoder compares a Decoder, with buffers of earlier entries, with package proto.
func FuzzDecoder(f *testing.F) {
	add := func(e *fsmpb.Entry) {
		data, err := proto.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data, data...))
		for i := range data {
			f.Add(data[:i])
			broken := bytes.Clone(data)
			broken[i] ^= 0x80
			f.Add(broken)
		}
	}
	add(&fsmpb.Entry{Term: 3, NowMs: -5, Ops: []*fsmpb.Op{submitOp(fullSpec()),
		{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}},
		{Op: &fsmpb.Op_Lease{Lease: fullLease()}}, {}}, WallMs: nil})
	add(&fsmpb.Entry{Ops: []*fsmpb.Op{submitOp(&rota.JobSpec{ID: "a", Labels: map[string]string{"a": "b"},
		Limits: map[string]int64{"l": -1}}), {Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}}})
	pair := &fsmpb.Pair{Job: "j", Worker: "w", Score: -1, Rank: -2, Rule: 3, N: 4, Of: 5, Interleaved: true}
	round := &fsmpb.Round{Epoch: 1, Height: 2, Queue: "q", With: 3, Pairs: []*fsmpb.Pair{pair, {}, pair}}
	add(&fsmpb.Entry{Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Round{Round: round}}, {Op: &fsmpb.Op_Round{Round: round}},
		{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{Pairs: round.Pairs, Holds: []*fsmpb.Hold{{Job: "h"}}}}}}})
	add(&fsmpb.Entry{Ops: []*fsmpb.Op{submitOp(jobSpec("b", []byte("x")))}, WallMs: []int64{1, 2}})
	add(&fsmpb.Entry{Ops: []*fsmpb.Op{asked(submitOp(jobSpec("c", nil)), "r1"),
		asked(submitOp(jobSpec("d", nil)), "r2"),
		asked(&fsmpb.Op{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}, "r2"),
		{Op: &fsmpb.Op_Lease{Lease: fullLease()}, Actor: "anonymous"}}})
	d := &Decoder{}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want fsmpb.Entry
		refusal := proto.Unmarshal(body, &want)
		if refusal == nil && unknown(want.ProtoReflect()) {
			refusal = errUnknown
		}
		got, err := d.decode(body)
		if (refusal == nil) != (err == nil) {
			t.Fatalf("%v, but package proto: %v", err, refusal)
		}
		if err == nil && !proto.Equal(got, &want) {
			t.Fatalf("read %v, but package proto %v", got, &want)
		}
	})
}

// asked is an operation with a caller.
func asked(op *fsmpb.Op, request string) *fsmpb.Op {
	op.Actor, op.Via, op.Request = "token:aaaaaaaaaaaa", "n1/grpc", request
	return op
}

func fullLease() *fsmpb.LeaseOp {
	return &fsmpb.LeaseOp{Verb: 3, Lease: []byte("lease"), Job: "j", Worker: "w", Session: 1 << 60, Ordinal: -1,
		Output: []byte("out"), OutputDigest: []byte("digest"), Text: "text", Progress: 7, Fail: 2, AfterMs: 1_000,
		Meta: []*fsmpb.Label{{Key: "model", Value: "m1"}, {Key: "", Value: "no key"}}}
}

func fullSpec() *rota.JobSpec {
	return &rota.JobSpec{ID: "job", Queue: "q", Type: "t", Tenant: "x", Priority: -3, Fee: 1, SizeBytes: 2,
		Payload: []byte("payload"),
		Delay:   3 * time.Millisecond, NotBefore: rota.Date(4).Time(), TTL: 5 * time.Millisecond,
		MaxRuntime: 6 * time.Millisecond, CPUMilli: 7, MemoryBytes: 8, IOBytesPerS: 12, Requires: []string{"a", "b"},
		RegionsAllow: []string{"c"}, RegionsDeny: []string{"d"}, Zone: "z", Domain: "dom", Worker: "w",
		ExpectedDigest: []byte("e"),
		Simulate:       9 * time.Millisecond, Units: 10, Expected: 11 * time.Millisecond, RetryOnInvalidProof: true,
		DataKeys: []string{"k1", "k2"}}
}

// TestDecoder checks that usual entries use the fast path: it reads all fields, and only allocates values that live on.
func TestDecoder(t *testing.T) {
	entry := &fsmpb.Entry{Term: 3, NowMs: 5}
	for range 100 {
		entry.Ops = append(entry.Ops, asked(submitOp(fullSpec()), "r"),
			asked(&fsmpb.Op{Op: &fsmpb.Op_Lease{Lease: fullLease()}}, "r"))
	}
	entry.Ops = append(entry.Ops, &fsmpb.Op{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{Epoch: 1, Height: 2, Queue: "q",
		With: 200}}})
	body, err := proto.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	d := &Decoder{}
	if !d.usual(body) || !proto.Equal(&d.entry, entry) {
		t.Fatalf("read %v", &d.entry)
	}
	// A submission's payload, digest and four lists, of which two grow once; a verb's text, output and digest, two
	// pairs of meta with their values, and their list, which grows once; the ids and jobs in a few pieces.
	if n := testing.AllocsPerRun(10, func() { d.usual(body) }); n > 100*(8+3+6)+10 {
		t.Errorf("%v allocations for 100 submissions and 100 verbs", n)
	}
}

// TestDecoder_labels checks that a job with labels and limits takes the fast path too.
func TestDecoder_labels(t *testing.T) {
	spec := fullSpec()
	spec.Labels, spec.Limits = map[string]string{"a": "b", "c": ""}, map[string]int64{"depth": -1, "width": 3}
	spec.Headers = map[string]string{"traceparent": "00-1", "baggage": "a=b"}
	entry := &fsmpb.Entry{Ops: []*fsmpb.Op{submitOp(spec), submitOp(spec)}}
	body, err := proto.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	if d := (&Decoder{}); !d.usual(body) || !proto.Equal(&d.entry, entry) {
		t.Fatalf("read %v", &d.entry)
	} else if d.entry.Ops[0].GetSubmit() != &d.submits[0].submit {
		t.Error("the job was left to package proto")
	}
}
