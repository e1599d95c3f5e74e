package words

import (
	"errors"
	"reflect"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// The naive way to read each message is the generated code, with the functions of this package.

func naiveFromNode(b []byte) (FromNode, error) {
	var w rotav1.WorkResponse
	if err := proto.Unmarshal(b, &w); err != nil {
		return FromNode{}, err
	}
	m := FromNode{Other: &w}
	err := m.other(nil)
	return m, err
}

func naiveFromWorker(b []byte) (m FromWorker, err error) {
	var w rotav1.WorkRequest
	if err := proto.Unmarshal(b, &w); err != nil {
		return m, err
	}
	m.Size = len(b)
	if _, ok := w.GetMessage().(*rotav1.WorkRequest_Commands); !ok {
		m.Other = &w
		return m, nil
	}
	m.Sequence = w.GetCommands().GetSequence()
	for _, c := range w.GetCommands().GetCommands() {
		command, fault := LeaseCommandFromWire(c)
		m.add(command, fault)
	}
	return m, nil
}

func marshalled(t rapid.TB, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sameHot checks that both ways read the same, or both failed.
func sameHot[M any](t rapid.TB, b []byte, hot *M, err error, naive M, naiveErr error) {
	t.Helper()
	if (err != nil) != (naiveErr != nil) {
		t.Fatalf("%x\nread here: %v\nthe generated way: %v", b, err, naiveErr)
	}
	if err != nil {
		return
	}
	if path := differ(reflect.ValueOf(naive), reflect.ValueOf(*hot), ""); path != "" {
		t.Fatalf("%x\ndiffers at %s:\n naive %+v\n here  %+v", b, path, naive, *hot)
	}
}

func sameFromNode(t rapid.TB, b []byte) FromNode {
	t.Helper()
	naive, naiveErr := naiveFromNode(b)
	kept := append([]byte(nil), b...)
	var hot FromNode
	err := hot.read(b)
	clear(b) // nothing of it may be kept
	if hot.Other != nil && naive.Other != nil {
		if !proto.Equal(hot.Other, naive.Other) {
			t.Fatalf("%v is not %v", hot.Other, naive.Other)
		}
		hot.Other, naive.Other = nil, nil
	}
	sameHot(t, kept, &hot, err, naive, naiveErr)
	return hot
}

func sameFromWorker(t rapid.TB, b []byte) FromWorker {
	t.Helper()
	naive, naiveErr := naiveFromWorker(b)
	kept := append([]byte(nil), b...)
	var hot FromWorker
	err := hot.read(b)
	clear(b)
	if hot.Other != nil && naive.Other != nil {
		if !proto.Equal(hot.Other, naive.Other) {
			t.Fatalf("%v is not %v", hot.Other, naive.Other)
		}
		hot.Other, naive.Other = nil, nil
	}
	if err != nil && naiveErr != nil {
		hot.Faults = nil // parts read before the error are not used
	}
	for i := range hot.Faults {
		if len(naive.Faults) != len(hot.Faults) || !reflect.DeepEqual(hot.Faults[i], naive.Faults[i]) {
			t.Fatalf("%x\nfaults %v, the generated way %v", kept, hot.Faults, naive.Faults)
		}
		if hot.Faults[i] != nil { // a faulty command may be read up to different points
			hot.Commands[i], naive.Commands[i] = peer.LeaseCommand{}, peer.LeaseCommand{}
		}
	}
	hot.Faults, naive.Faults = nil, nil
	sameHot(t, kept, &hot, err, naive, naiveErr)
	return hot
}

func drawNotices(t *rapid.T) []peer.Notice {
	assignments, ends := rapid.MakeCustom[rota.Assignment](anyWords()), rapid.MakeCustom[peer.LeaseEnd](anyWords())
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) peer.Notice {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			a := assignments.Draw(t, "assignment")
			return peer.Notice{Assigned: &a}
		case 1:
			e := ends.Draw(t, "end")
			return peer.Notice{Ended: &e}
		case 2:
			e := ends.Draw(t, "revocation")
			return peer.Notice{Revoked: &e}
		default:
			return peer.Notice{Draining: true}
		}
	}), 1, 6).Draw(t, "notices")
}

func TestNotices_areWrittenAndReadAsTheGeneratedOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		notices := drawNotices(t)
		most := rapid.SampledFrom([]int{1 << 20, 400, 1}).Draw(t, "most")
		var told []peer.Notice
		for _, w := range WriteNotices(notices, most) {
			size, these := w.Size(), sameFromNode(t, w.bytes).Notices
			if size > most && len(these) > 1 {
				t.Fatalf("%d notices in %d bytes, want at most %d", len(these), size, most)
			}
			told = append(told, these...)
		}
		naive := &rotav1.WorkResponse{Message: &rotav1.WorkResponse_Notices{Notices: NoticesToWire(notices)}}
		hot := sameFromNode(t, marshalled(t, naive))
		if most == 1<<20 {
			if path := differ(reflect.ValueOf(hot.Notices), reflect.ValueOf(told), ""); path != "" {
				t.Fatalf("differs at %s", path)
			}
		}
		drains := func(all []peer.Notice) (n int) {
			for i := range all {
				if all[i].Draining {
					n++
				}
			}
			return n
		}
		if len(told)-drains(told) != len(notices)-drains(notices) || (drains(told) > 0) != (drains(notices) > 0) {
			t.Fatalf("%d notices came as %d", len(notices), len(told))
		}
	})
}

func TestAnswers_areWrittenAndReadAsTheGeneratedOnes(t *testing.T) {
	t.Parallel()
	answers := rapid.SliceOfN(rapid.MakeCustom[peer.LeaseAnswer](anyWords()), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		each, refusal, sequence := answers.Draw(t, "answers"), drawError(t), rapid.Uint64().Draw(t, "sequence")
		naive := &rotav1.LeaseAnswers{Sequence: sequence, Refusal: RefusalToWire(refusal)}
		for i := range each {
			naive.Answers = append(naive.Answers, LeaseAnswerToWire(&each[i]))
		}
		here := sameFromNode(t, WriteAnswers(sequence, each, refusal).bytes)
		there := sameFromNode(t, marshalled(t,
			&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Answers{Answers: naive}}))
		if path := differ(reflect.ValueOf(there), reflect.ValueOf(here), ""); path != "" || !here.Answered ||
			here.Sequence != sequence {
			t.Fatalf("differs at %s: %+v", path, here)
		}
	})
}

func TestCommands_areWrittenAndReadAsTheGeneratedOnes(t *testing.T) {
	t.Parallel()
	commands := rapid.SliceOfN(rapid.MakeCustom[peer.LeaseCommand](anyWords()), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		each, sequence := commands.Draw(t, "commands"), rapid.Uint64().Draw(t, "sequence")
		naive := &rotav1.LeaseCommands{Sequence: sequence}
		for i := range each {
			naive.Commands = append(naive.Commands, LeaseCommandToWire(&each[i]))
		}
		here := sameFromWorker(t, WriteCommands(sequence, len(each),
			func(i int) *peer.LeaseCommand { return &each[i] }).bytes)
		there := sameFromWorker(t, marshalled(t,
			&rotav1.WorkRequest{Message: &rotav1.WorkRequest_Commands{Commands: naive}}))
		here.Size, there.Size = 0, 0
		if path := differ(reflect.ValueOf(there), reflect.ValueOf(here), ""); path != "" || here.Sequence != sequence {
			t.Fatalf("differs at %s: %+v", path, here)
		}
	})
}

func TestCommands_refusesEachAtItsPlace(t *testing.T) {
	t.Parallel()
	w := &rotav1.WorkRequest{Message: &rotav1.WorkRequest_Commands{Commands: &rotav1.LeaseCommands{Sequence: 3,
		Commands: []*rotav1.LeaseCommand{
			{Verb: 3, LeaseId: make([]byte, 32)}, {Verb: 99}, {Verb: 1, LeaseId: []byte("short")}, {}, {Verb: 1},
		}}}}
	m := sameFromWorker(t, marshalled(t, w))
	if len(m.Commands) != 5 {
		t.Fatalf("%+v", m)
	}
}

func TestCodec(t *testing.T) {
	t.Parallel()
	c := Codec()
	for name, to := range map[string]any{"generated": new(rotav1.WorkResponse), "hot": new(FromNode)} {
		for _, from := range []any{WriteAnswers(7, nil, nil),
			&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Answers{Answers: &rotav1.LeaseAnswers{Sequence: 7}}}} {
			b, err := c.Marshal(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Unmarshal(b, to); err != nil {
				t.Fatal(err)
			}
			b.Free()
			if w, ok := to.(*rotav1.WorkResponse); ok && w.GetAnswers().GetSequence() != 7 || !ok &&
				to.(*FromNode).Sequence != 7 {
				t.Errorf("%s reads %v", name, to)
			}
		}
	}
	if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer{0xff}}, new(FromWorker)); err == nil {
		t.Error("bytes that are not protobuf are read")
	}
}

func FuzzHotMessages(f *testing.F) {
	spec, lease := sampleSpec(), sampleLease()
	spec.Limits = map[string]int64{"depth": -1}
	end := peer.LeaseEnd{Lease: lease.ID, Job: "j", Reason: rota.ReasonLast}
	refusal := &rota.Error{Kind: rota.KindStale, Text: "x"}
	for _, w := range WriteNotices([]peer.Notice{{Assigned: &rota.Assignment{Lease: lease, Spec: spec,
		RenewalsMax: -1}}, {Ended: &end},
		{Revoked: &end}, {Draining: true}}, 1<<20) {
		f.Add(w.bytes)
	}
	f.Add(WriteAnswers(1, []peer.LeaseAnswer{{Err: refusal},
		{JobState: rota.JobCompleted, Deadline: 5, Renewals: 1, Index: 9}}, refusal).bytes)
	f.Add(WriteCommands(1, 1, func(int) *peer.LeaseCommand {
		return &peer.LeaseCommand{Verb: rota.VerbComplete, Lease: lease.ID, Job: "j", Output: []byte("o"), Text: "t"}
	}).bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		sameFromNode(t, append([]byte(nil), b...))
		sameFromWorker(t, append([]byte(nil), b...))
	})
}

var errSink error

func BenchmarkHotNotices(b *testing.B) {
	spec, lease := sampleSpec(), sampleLease()
	notices := make([]peer.Notice, 64)
	for i := range notices {
		notices[i].Assigned = &rota.Assignment{Lease: lease, Spec: spec}
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			sinkAny = WriteNotices(notices, 1<<20)
		}
	})
	b.Run("write by package proto", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			sinkAny, errSink = proto.Marshal(
				&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Notices{Notices: NoticesToWire(notices)}})
		}
	})
	in := WriteNotices(notices, 1<<20)[0].bytes
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			var m FromNode
			errSink = errors.Join(m.read(in))
		}
	})
	b.Run("read by package proto", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, errSink = naiveFromNode(in)
		}
	})
}
