package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

// AfterTests stops the servers that the examples started. It is nil if no example ran.
var AfterTests func()

// thenEnd runs the tests and then AfterTests.
type thenEnd struct{ *testing.M }

func (m thenEnd) Run() int {
	code := m.M.Run()
	if AfterTests != nil {
		AfterTests()
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(thenEnd{m}) }

// accept answers a submission as accepted.
func accept(r *rotav1.SubmitRequest) *rotav1.SubmitResponse {
	answer := &rotav1.SubmitResponse{}
	for _, j := range r.Jobs {
		s := rota.Submitted{ID: rota.JobID(j.Id), State: rota.JobQueued, Index: 7}
		answer.Jobs = append(answer.Jobs, words.SubmittedToWire(&s))
	}
	return answer
}

func idsOf(r *rotav1.SubmitRequest) (ids []string) {
	for _, j := range r.Jobs {
		ids = append(ids, j.Id)
	}
	return ids
}

func TestSubmit_asksAnotherNodeWithTheSameIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 3)
		defer stop()
		var first, second []string
		f.nodes[0].onSubmit = func(ctx context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
			first = idsOf(r)
			<-ctx.Done() // the call breaks: its outcome is unknown
			return nil, ctx.Err()
		}
		f.nodes[1].server.Stop() // dead
		f.nodes[2].onSubmit = func(_ context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
			second = idsOf(r)
			answer := accept(r)
			for _, j := range answer.Jobs {
				j.Existed = true
			}
			return answer, nil
		}
		mine := rota.NewJobSpec("t", nil)
		mine.ID = "mine"
		out, err := f.client.Submit(t.Context(), rota.NewJobSpec("t", nil), mine)
		synctest.Wait() // the first node's handler has seen that its caller is gone
		if err != nil || len(out) != 2 || out[0].State != rota.JobQueued {
			t.Fatalf("%+v, %v", out, err)
		}
		if !slices.Equal(first, second) || string(out[0].ID) != first[0] || first[1] != "mine" ||
			len(first[0]) != 26 {
			t.Fatalf("first %v, then %v, printed %v", first, second, out)
		}
		if out[0].Existed || !out[1].Existed {
			t.Fatalf("a generated id existed, or a given one did not: %+v", out)
		}
	})
}

func TestSubmit_splitsAndRetriesOnlyWhatHasNoOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		calls, seen := 0, map[string]int{}
		f.nodes[0].onSubmit = func(_ context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
			calls++
			if len(r.Jobs) > limits.MaxBatchJobs {
				t.Errorf("%d jobs in a message", len(r.Jobs))
			}
			answer := accept(r)
			for i, j := range r.Jobs {
				if seen[j.Id]++; j.Id == "unknown" && seen[j.Id] == 1 {
					answer.Jobs[i].Refusal = words.RefusalToWire(rota.Refusef(rota.KindUnavailable, "", "entry lost"))
				}
				if j.Id == "refused" {
					answer.Jobs[i].Refusal = words.RefusalToWire(rota.Refusef(rota.KindExhausted, "queue_cap", "full"))
				}
			}
			return answer, nil
		}
		jobs := make([]rota.JobSpec, 1500)
		for i := range jobs {
			jobs[i] = rota.NewJobSpec("t", nil)
		}
		for range 8 { // 2 MB
			jobs = append(jobs, rota.NewJobSpec("t", make([]byte, 250<<10)))
		}
		jobs[0].ID, jobs[1].ID = "unknown", "refused"
		jobs = append(jobs, rota.NewJobSpec("t", make([]byte, 2<<20)))
		out, err := EachOutcome(f.client.Submit(t.Context(), jobs...))
		if err != nil {
			t.Fatal(err)
		}
		if calls != 5 { // 1000, 500 and 3 large, 4 large, 1 large, then those with unknown outcomes
			t.Errorf("%d messages", calls)
		}
		if out[0].Err != nil || rota.KindOf(out[1].Err) != rota.KindExhausted ||
			rota.KindOf(out[len(out)-1].Err) != rota.KindInvalid {
			t.Fatalf("outcomes %+v %+v %+v", out[0], out[1], out[len(out)-1])
		}
		if seen["unknown"] != 2 || seen["refused"] != 1 || len(seen) != len(jobs)-1 {
			t.Fatalf("unknown was sent %d times, refused %d times, %d ids",
				seen["unknown"], seen["refused"], len(seen))
		}
	})
}

func TestCall_givesUpAsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		tries := 0
		noLeader := func(context.Context, *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
			tries++
			return nil, words.ToStatus(&rota.Error{Kind: rota.KindUnavailable, Text: "no leader",
				RetryAfter: time.Second})
		}
		f.nodes[0].onSubmit, f.nodes[1].onSubmit = noLeader, noLeader
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		out, err := f.client.Submit(ctx, rota.NewJobSpec("t", nil))
		if rota.KindOf(err) != rota.KindUnavailable || !strings.Contains(err.Error(), "no leader") {
			t.Fatalf("error %v", err)
		}
		if out[0].ID == "" || out[0].Err == nil || rota.KindOf(out[0].Err) != rota.KindUnavailable {
			t.Fatalf("outcome %+v", out[0])
		}
		if tries < 5 || tries > 11 {
			t.Fatalf("%d tries in 10 s, want one per second", tries)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := f.client.Submit(ctx, rota.NewJobSpec("t", nil)); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
	})
}

func TestCall_returnsWhatAnotherTryDoesNotMend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		calls := 0
		f.nodes[0].onGet = func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
			calls++
			return nil, words.ToStatus(rota.Refusef(rota.KindNotFound, "nope", "job nope is not known"))
		}
		_, err := f.client.Job(t.Context(), "nope")
		if rota.KindOf(err) != rota.KindNotFound || calls != 1 {
			t.Fatalf("%v after %d calls", err, calls)
		}
		if err := f.client.Leave(t.Context()); rota.KindOf(err) != rota.KindUnavailable {
			t.Fatalf("leave: %v", err)
		}
		if len(f.nodes[0].drains) != 1 || len(f.nodes[1].drains) != 0 {
			t.Fatal("leave must be called once, at the first address")
		}
		_ = f.client.Close()
		_, err = f.client.Job(t.Context(), "nope")
		if rota.KindOf(err) != rota.KindUnavailable {
			t.Fatalf("closed: %v", err)
		}
	})
}

func tell(s grpc.ServerStreamingServer[rotav1.Job], id string) error {
	j := rota.Job{State: rota.JobCompleted}
	j.ID = rota.JobID(id)
	return s.Send(words.JobToWire(&j))
}

func TestWait_tellsEachJobOnceAcrossNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		f.nodes[0].onWait = func(r *rotav1.WaitJobsRequest, s grpc.ServerStreamingServer[rotav1.Job]) error {
			_ = tell(s, "a")
			_ = tell(s, "a")
			return words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "the node stops"))
		}
		lagging := true
		f.nodes[1].onGet = func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
			lagging = false
			return &rotav1.GetJobResponse{Job: &rotav1.Job{}}, nil
		}
		f.nodes[1].onWait = func(r *rotav1.WaitJobsRequest, s grpc.ServerStreamingServer[rotav1.Job]) error {
			if lagging {
				return words.ToStatus(rota.Refusef(rota.KindNotFound, "b", "job b is not known"))
			}
			if !slices.Equal(r.Ids, []string{"b", "c"}) {
				t.Errorf("waits for %v", r.Ids)
			}
			return errors.Join(tell(s, "c"), tell(s, "b"))
		}
		var got []rota.JobID
		ended, err := Collect(f.client.Wait(t.Context(), "a", "b", "c", "a"))
		for _, j := range ended {
			got = append(got, j.ID)
		}
		if err != nil || fmt.Sprint(got) != "[a c b]" {
			t.Fatalf("%v, %v", got, err)
		}
	})
}

// TestWait_endsByTheNodesWord has a node end the wait slightly before the caller's deadline. Wait must return a
// timeout, not an error for a node that did not answer.
func TestWait_endsByTheNodesWord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		f.nodes[0].onWait = func(_ *rotav1.WaitJobsRequest, s grpc.ServerStreamingServer[rotav1.Job]) error {
			deadline, _ := s.Context().Deadline()
			pause(s.Context(), time.Until(deadline)-100*time.Millisecond)
			return words.ToStatus(rota.Refusef(rota.KindTimeout, "job",
				"the waiting time is over and jobs are still running"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Collect(f.client.Wait(ctx, "a")); rota.KindOf(err) != rota.KindTimeout {
			t.Fatalf("error %v, want a timeout: the node was there", err)
		}
	})
}

// lateTimer is a context whose deadline passes before its Done channel closes.
type lateTimer struct {
	context.Context
	deadline time.Time
}

func (l lateTimer) Deadline() (time.Time, bool) { return l.deadline, true }

// TestEnded checks that when ended reports true, the context is done too.
func TestEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner, cancel := context.WithTimeout(t.Context(), time.Second+time.Millisecond)
		defer cancel()
		ctx := lateTimer{inner, time.Now().Add(time.Second)}
		if ended(ctx) {
			t.Error("it ended too early")
		}
		time.Sleep(time.Second)
		if !ended(ctx) || ctx.Err() == nil {
			t.Errorf("the deadline has passed, and its error is %v", ctx.Err())
		}
		// The wall clock was set forward: the deadline has passed, but the timer has hours left.
		hours, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		began := time.Now()
		if !ended(lateTimer{hours, time.Now()}) || time.Since(began) > maxTimer {
			t.Errorf("it took %s to notice that the deadline has passed", time.Since(began))
		}
	})
}

func TestWait_ends(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		f.nodes[0].onWait = func(_ *rotav1.WaitJobsRequest, s grpc.ServerStreamingServer[rotav1.Job]) error {
			_ = tell(s, "a")
			<-s.Context().Done()
			return s.Context().Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Collect(f.client.Wait(ctx, "a", "b"))
		if rota.KindOf(err) != rota.KindTimeout {
			t.Fatalf("error %v, want a timeout: the node was there", err)
		}
		f.nodes[0].onGet = func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
			return nil, words.ToStatus(rota.Refusef(rota.KindNotFound, "x", "job x is not known"))
		}
		f.nodes[0].onWait = func(*rotav1.WaitJobsRequest, grpc.ServerStreamingServer[rotav1.Job]) error {
			return words.ToStatus(rota.Refusef(rota.KindNotFound, "x", "job x is not known"))
		}
		if _, err := Collect(f.client.Wait(t.Context(), "x")); rota.KindOf(err) != rota.KindNotFound {
			t.Fatalf("error %v", err)
		}
	})
}

func TestDial_refusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, addrs := range [][]string{nil, {""}, {"localhost"}, {"a:1", "b"}} {
		if _, err := Dial(addrs); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("Dial(%q): %v", addrs, err)
		}
	}
}

func TestNewWorker_checksAndNames(t *testing.T) {
	t.Parallel()
	c, err := Dial([]string{"127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	spec := rota.WorkerSpec{Queues: []rota.QueueName{"q"}, Slots: 1}
	a, err := NewWorker(c, spec)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := NewWorker(c, spec); a.ID() == b.ID() || !rota.ValidID(a.ID()) {
		t.Fatalf("ids %q, %q", a.ID(), b.ID())
	}
	if _, err := NewWorker(c, spec, WithSecret([]byte("short"))); rota.KindOf(err) != rota.KindInvalid {
		t.Fatalf("a short secret: %v", err)
	}
	if _, err := NewWorker(c, rota.WorkerSpec{Slots: 1}); rota.KindOf(err) != rota.KindInvalid {
		t.Fatalf("no queue: %v", err)
	}
}

// A generated id needs no archive lookup until a response to its submission may have been lost.
func TestSubmit_saysMintedOnTheFirstTryOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 2)
		defer stop()
		var minted [][]bool
		for _, n := range f.nodes {
			n.onSubmit = func(_ context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
				tries := []bool{}
				for _, j := range r.Jobs {
					tries = append(tries, j.Minted)
				}
				if minted = append(minted, tries); len(minted) == 1 {
					return nil, errStream
				}
				answer := accept(r)
				answer.Jobs[1].Throttle = true
				return answer, nil
			}
		}
		mine := rota.NewJobSpec("t", nil)
		mine.ID = "mine"
		out, err := f.client.Submit(t.Context(), rota.NewJobSpec("t", nil), mine)
		if err != nil {
			t.Fatal(err)
		}
		want := [][]bool{{true, false}, {false, false}}
		if fmt.Sprint(minted) != fmt.Sprint(want) {
			t.Errorf("minted is %v, want %v", minted, want)
		}
		if out[0].Throttle || !out[1].Throttle {
			t.Errorf("the hint is missing, or belongs to another job: %+v", out)
		}
	})
}
