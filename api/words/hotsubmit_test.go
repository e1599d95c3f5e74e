package words

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

func sameSubmission(t rapid.TB, b []byte) Submission {
	t.Helper()
	var w rotav1.SubmitRequest
	naiveErr := proto.Unmarshal(b, &w)
	naive := Submission{Size: len(b)}
	for _, j := range w.GetJobs() {
		naive.Jobs = append(naive.Jobs, JobSpecFromWire(j))
	}
	var hot Submission
	kept := append([]byte(nil), b...)
	err := hot.read(b)
	clear(b)
	sameHot(t, kept, &hot, err, naive, naiveErr)
	return hot
}

func sameSubmitOutcomes(t rapid.TB, b []byte) SubmitOutcomes {
	t.Helper()
	var w rotav1.SubmitResponse
	naiveErr := proto.Unmarshal(b, &w)
	var naive SubmitOutcomes
	if naiveErr == nil {
		naive.Jobs, naiveErr = tryEach(w.GetJobs(), submittedFromWire)
	}
	var hot SubmitOutcomes
	kept := append([]byte(nil), b...)
	err := hot.read(b)
	clear(b)
	sameHot(t, kept, &hot, err, naive, naiveErr)
	return hot
}

func TestSubmission_isWrittenAndReadAsTheGeneratedOne(t *testing.T) {
	t.Parallel()
	specs := rapid.SliceOfN(rapid.MakeCustom[rota.JobSpec](anyWords()), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		jobs := specs.Draw(t, "jobs")
		naive := new(rotav1.SubmitRequest)
		for i := range jobs {
			naive.Jobs = append(naive.Jobs, JobSpecToWire(&jobs[i]))
			size := proto.Size(naive.Jobs[i])
			// The generated code also writes empty fields in a map.
			if most := MaxJobSpec(&jobs[i]); size < JobSpecSize(&jobs[i]) || most < size+8 {
				t.Fatalf("%d bytes, %d here, at most %d", size, JobSpecSize(&jobs[i]), most)
			}
		}
		here := sameSubmission(t, WriteSubmission(len(jobs), func(i int) *rota.JobSpec { return &jobs[i] }).bytes)
		there := sameSubmission(t, marshalled(t, naive))
		here.Size, there.Size = 0, 0
		if path := differ(reflect.ValueOf(there), reflect.ValueOf(here), ""); path != "" {
			t.Fatalf("differs at %s", path)
		}
	})
}

func TestSubmitOutcomes_areWrittenAndReadAsTheGeneratedOnes(t *testing.T) {
	t.Parallel()
	outcomes := rapid.SliceOfN(rapid.MakeCustom[rota.Submitted](anyWords()), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		each := outcomes.Draw(t, "outcomes")
		naive := new(rotav1.SubmitResponse)
		for i := range each {
			naive.Jobs = append(naive.Jobs, SubmittedToWire(&each[i]))
			naive.Index = max(naive.Index, uint64(each[i].Index))
		}
		written := WriteSubmitOutcomes(each).bytes
		var read rotav1.SubmitResponse
		if err := proto.Unmarshal(written, &read); err != nil || !proto.Equal(&read, naive) {
			t.Fatalf("%v, want %v (%v)", &read, naive, err)
		}
		here, there := sameSubmitOutcomes(t, written), sameSubmitOutcomes(t, marshalled(t, naive))
		if path := differ(reflect.ValueOf(there), reflect.ValueOf(here), ""); path != "" {
			t.Fatalf("differs at %s", path)
		}
	})
}

func FuzzHotSubmissions(f *testing.F) {
	spec := sampleSpec()
	spec.Limits = map[string]int64{"depth": -1}
	f.Add(WriteSubmission(1, func(int) *rota.JobSpec { return &spec }).bytes)
	f.Add(WriteSubmitOutcomes([]rota.Submitted{{ID: "a", State: rota.JobQueued, Index: 7, Throttle: true},
		{ID: "b", Err: &rota.Error{Kind: rota.KindExhausted, Text: "x"}, Existed: true}}).bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		sameSubmission(t, append([]byte(nil), b...))
		sameSubmitOutcomes(t, append([]byte(nil), b...))
	})
}

func BenchmarkHotSubmission(b *testing.B) {
	jobs := make([]rota.JobSpec, 100)
	naive := new(rotav1.SubmitRequest)
	for i := range jobs {
		jobs[i] = rota.NewJobSpec("resize", make([]byte, 256))
		jobs[i].ID, jobs[i].Tenant = "01JC0000000000000000000000", "acme"
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			sinkAny = WriteSubmission(len(jobs), func(i int) *rota.JobSpec { return &jobs[i] })
		}
	})
	b.Run("write by package proto", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			naive.Jobs = naive.Jobs[:0]
			for i := range jobs {
				naive.Jobs = append(naive.Jobs, JobSpecToWire(&jobs[i]))
			}
			sinkAny, errSink = proto.Marshal(naive)
		}
	})
	in := WriteSubmission(len(jobs), func(i int) *rota.JobSpec { return &jobs[i] }).bytes
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			errSink = new(Submission).read(in)
		}
	})
	b.Run("read by package proto", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			w := new(rotav1.SubmitRequest)
			errSink = proto.Unmarshal(in, w)
			for _, j := range w.Jobs {
				sinkSpec = JobSpecFromWire(j)
			}
		}
	})
}

// submittedFromWire is the inverse of SubmittedToWire.
func submittedFromWire(w *rotav1.Submitted) (rota.Submitted, error) {
	state, err := jobStates.value(w.GetState())
	return rota.Submitted{
		ID: rota.JobID(w.GetId()), State: state, Existed: w.GetExisted(), Index: rota.Index(w.GetIndex()),
		Err: RefusalFromWire(w.GetRefusal()).OrNil(), Throttle: w.GetThrottle(), Holder: rota.JobID(w.GetHolder()),
		Merge: rota.Merge(w.GetMerge()),
	}, err
}
