package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// BenchmarkLeases measures a worker's work for each lease, without the network: it reads a message of notices, runs
// handlers, puts completions into messages, and reads answers.
func BenchmarkLeases(b *testing.B) {
	const slots = 64
	c, err := Dial([]string{"127.0.0.1:1"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	w, err := NewWorker(c, rota.WorkerSpec{Queues: []rota.QueueName{"q"}, Slots: slots, Prefetch: slots})
	if err != nil {
		b.Fatal(err)
	}
	w.Handle("", func(_ context.Context, job *Job) (Result, error) {
		sum := sha256.Sum256(job.Payload())
		return Result{Digest: sum[:]}, nil
	})
	s := &stream{table: newLeaseTable(w, b.Context())}
	defer s.table.closePool()
	s.table.beatAnswered(viewpoint{known: true, sent: w.now() + time.Hour, clock: 100_000})
	b.ReportAllocs()
	var m benchMeter
	m.start(b)
	for at := 0; at < b.N; {
		n := min(slots, b.N-at)
		m.stop(b)
		in := benchNotices(b, at, n)
		m.start(b)
		benchTake(b, s, in)
		for done := 0; done < n; {
			request, _ := s.table.toSend(w.now())
			if request == nil {
				runtime.Gosched()
				continue
			}
			out, err := words.Codec().Marshal(request)
			m.stop(b)
			var sent rotav1.WorkRequest
			if err := errors.Join(err, proto.Unmarshal(out.Materialize(), &sent)); err != nil {
				b.Fatal(err)
			}
			out.Free()
			k := len(sent.GetCommands().GetCommands())
			answers := benchAnswers(b, sent.GetCommands().GetSequence(), k)
			m.start(b)
			benchTake(b, s, answers)
			done += k
		}
		at += n
	}
	m.stop(b)
	b.ReportMetric(float64(m.used)/float64(b.N), "cpu-ns/op")
	if left := len(s.table.leases); left > 0 {
		b.Fatalf("%d leases are left", left)
	}
}

// benchMeter measures the process's CPU time of the measured part: on a busy machine wall-clock time is meaningless.
type benchMeter struct{ used, since time.Duration }

func (m *benchMeter) now() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (m *benchMeter) start(b *testing.B) {
	b.StartTimer()
	m.since = m.now()
}

func (m *benchMeter) stop(b *testing.B) {
	m.used += m.now() - m.since
	b.StopTimer()
}

func benchTake(b *testing.B, s *stream, in []byte) {
	var response words.FromNode
	if err := words.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(in)}, &response); err != nil {
		b.Fatal(err)
	}
	s.take(&response)
}

func benchNotices(b *testing.B, at, n int) []byte {
	notices := make([]peer.Notice, n)
	for i := range notices {
		job := rota.JobID(fmt.Sprintf("bench-0123456789-%07d", at+i))
		spec := rota.NewJobSpec("bench", make([]byte, 256))
		spec.ID, spec.Queue, spec.Tenant = job, "bench", rota.DefaultTenant
		notices[i].Assigned = &rota.Assignment{
			Lease: rota.Lease{ID: sha256.Sum256([]byte(job)),
				Token: rota.Token{Incarnation: 1, Counter: uint64(at + i + 1)},
				Job:   job, Worker: "bench-0123456789-w0", Session: 7, State: rota.LeaseActive,
				Started: rota.Moment{Clock: 100_000}, AckBy: rota.Moment{Clock: 105_000},
				RenewBy: rota.Moment{Clock: 136_000}, Deadline: rota.Moment{Clock: 160_000},
				Decision: rota.Decision{Epoch: 5, Height: 600_000, Rank: 3, Score: 17,
					Reasoning: rota.Reasoning{Rule: rota.ReasoningByLeastLoaded, N: 2, Of: 4}, Seed: make([]byte, 32)}},
			Spec: spec, RenewEvery: 36 * time.Second, LeaseFor: time.Minute, RenewalsMax: -1,
		}
	}
	return benchWire(b, &rotav1.WorkResponse{Message: &rotav1.WorkResponse_Notices{Notices: words.NoticesToWire(
		notices)}})
}

func benchAnswers(b *testing.B, sequence uint64, n int) []byte {
	answers := &rotav1.LeaseAnswers{Sequence: sequence}
	for range n {
		answers.Answers = append(answers.Answers, words.LeaseAnswerToWire(&peer.LeaseAnswer{JobState: rota.JobCompleted,
			Index: 600_000}))
	}
	return benchWire(b, &rotav1.WorkResponse{Message: &rotav1.WorkResponse_Answers{Answers: answers}})
}

func benchWire(b *testing.B, m proto.Message) []byte {
	bytes, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	return bytes
}
