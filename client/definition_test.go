package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

func TestDefinition_decodesAndEncodes(t *testing.T) {
	t.Parallel()
	double := Define[struct{ N int }, map[string]int]("double")
	h := double.Handler(func(_ context.Context, _ *Job, in struct{ N int }) (map[string]int, error) {
		return map[string]int{"twice": 2 * in.N}, nil
	})
	a := leaseOf("typed")
	a.Spec.Payload = []byte(`{"N":21}`)
	r, err := h(t.Context(), NewJob(*a, nil))
	if err != nil || string(r.Output) != `{"twice":42}` {
		t.Fatalf("%s, %v", r.Output, err)
	}
	a.Spec.Payload = nil
	if r, err := h(t.Context(), NewJob(*a, nil)); err != nil || string(r.Output) != `{"twice":0}` {
		t.Errorf("an empty payload: %s, %v", r.Output, err)
	}
	whole := Define[string, Result]("whole", Encoded(Bytes)).Handler(func(_ context.Context, _ *Job, in string) (Result,
		error) {
		return Result{Output: []byte("of " + in), Meta: map[string]string{"a": "b"}}, nil
	})
	a.Spec.Payload = []byte(`"x`)
	if r, err := whole(t.Context(), NewJob(*a, nil)); err != nil || string(r.Output) != `of "x` || r.Meta["a"] != "b" {
		t.Errorf("an Out of type Result: %v, %v", r, err)
	}
	bad := Define[struct{}, chan int]("bad").Handler(func(context.Context, *Job, struct{}) (chan int, error) {
		return nil, nil
	})
	a.Spec.Payload = nil
	if _, err := bad(t.Context(), NewJob(*a, nil)); err == nil || outcomeOfError(err).Fail != peer.FailNoRetry {
		t.Errorf("an output that does not encode: %v", err)
	}
}

func TestDefinition_options(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	labels := Labels{"team": "web"}
	keys := []JobOption{Key("album", "7"), Key("user", "ann")}
	d := Define[int, int]("count", Queue("q"), Tenant("t"), Priority(3), MaxRuntime(time.Minute), TTL(time.Hour),
		labels, Requires("gpu"), Retry(5), keys[0])
	labels["team"] = "changed later"
	got, err := d.Job(7, ID("j"), At(noon), After(time.Second), Labels{"x": "y"}, keys[1], Requires("ssd"),
		Unique(ByArgs|ByQueue, time.Hour), InBatch("b"), Spec(func(s *rota.JobSpec) { s.Zone = "z" }))
	want := rota.JobSpec{ID: "j", Queue: "q", Type: "count", Tenant: "t", Priority: 3, Payload: rota.Blob("7"),
		Delay:     time.Second,
		NotBefore: noon, TTL: time.Hour, MaxRuntime: time.Minute, Requires: []string{"gpu", "ssd"}, Zone: "z",
		Labels: map[string]string{"team": "web", "x": "y"}, Retry: rota.RetryPolicy{Attempts: 5},
		Keys:  []string{"album:7", "user:ann"},
		Batch: "b", Unique: &rota.Unique{By: []string{"queue", "type", "args"}, Period: time.Hour}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	// Keys and labels of one job must not leak into another.
	one, _ := d.Job(1, Key("a", "1"), Labels{"a": "1"})
	two, _ := d.Job(2, Key("b", "2"), Labels{"b": "2"})
	if one.Keys[1] != "a:1" || two.Keys[1] != "b:2" || len(one.Labels) != 2 || len(two.Labels) != 2 {
		t.Errorf("jobs share options that they added: %v %v, %v %v", one.Keys, two.Keys, one.Labels, two.Labels)
	}
	if plain, _ := Define[int, int]("count").Job(1); plain.Priority != rota.DefaultPriority ||
		plain.Queue != rota.DefaultQueue {
		t.Errorf("without options: %+v", plain)
	}
}

// A value that does not encode is refused by its type, and nothing is sent.
func TestDefinition_jobThatDoesNotEncode(t *testing.T) {
	t.Parallel()
	c, err := Dial([]string{"127.0.0.1:1"}, WithSubmitter(func(Submitter) Submitter {
		return func(context.Context, ...rota.JobSpec) ([]rota.Submitted, error) {
			t.Error("it was sent")
			return nil, nil
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, d := range map[string]Definition[any, any]{"func()": Define[any, any]("any"),
		"nor string": Define[any, any]("any", Encoded(Bytes))} {
		h, err := d.Submit(t.Context(), c, func() {})
		if h != nil || rota.KindOf(err) != rota.KindInvalid || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, %v; want a refusal that names %q", h, err, name)
		}
	}
}

// taken answers a submission like a node that accepts everything.
func taken(r *rotav1.SubmitRequest) *rotav1.SubmitResponse {
	answer := new(rotav1.SubmitResponse)
	for _, job := range r.Jobs {
		answer.Jobs = append(answer.Jobs, &rotav1.Submitted{Id: job.Id, State: "QUEUED"})
	}
	return answer
}

func TestHandle_wait(t *testing.T) {
	nothing, something := sha256.Sum256(nil), sha256.Sum256([]byte("7"))
	tests := map[string]struct {
		job  rota.Job
		want int
		kind rota.Kind
		text string
	}{
		"an output": {job: rota.Job{State: rota.JobCompleted, Output: []byte("7"), OutputDigest: something[:]},
			want: 7}, "no output": {job: rota.Job{State: rota.JobCompleted, OutputDigest: nothing[:]}},
		"dead": {job: rota.Job{State: rota.JobDead, Reason: rota.ReasonAttemptsUsedUp, Error: "boom"},
			kind: rota.KindInternal, text: "job j is DEAD (ATTEMPTS_USED_UP): boom"},
		"another type": {job: rota.Job{State: rota.JobCompleted, Output: []byte(`"seven"`), OutputDigest: something[:]},
			kind: rota.KindInvalid, text: "does not decode as int"},
		"hidden": {job: rota.Job{State: rota.JobCompleted, OutputDigest: something[:]}, kind: rota.KindDenied,
			text: "right data"},
		"no longer kept": {job: rota.Job{State: rota.JobCompleted, OutputDigest: something[:], RecordDropped: true},
			kind: rota.KindOutOfRange, text: "archive_retention"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, stop := setup(t, 1)
				defer stop()
				f.nodes[0].onWait = func(r *rotav1.WaitJobsRequest, s grpc.ServerStreamingServer[rotav1.Job]) error {
					test.job.ID = rota.JobID(r.Ids[0])
					return s.Send(words.JobToWire(&test.job))
				}
				got, err := Define[int, int]("count").Of(f.client, "j").Wait(t.Context())
				if got != test.want || (err == nil) != (test.text == "") {
					t.Fatalf("%d, %v", got, err)
				}
				if err == nil {
					return
				}
				if failed := (*JobError)(nil); errors.As(err, &failed) != (test.job.State == rota.JobDead) {
					t.Errorf("%T", err)
				} else if failed == nil && rota.KindOf(err) != test.kind {
					t.Errorf("kind %v", rota.KindOf(err))
				}
				if !strings.Contains(err.Error(), test.text) {
					t.Errorf("%q does not mention %q", err, test.text)
				}
			})
		})
	}
}

// A submission that is merged into another job returns that job's handle.
func TestDefinition_submitMerged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		f.nodes[0].onSubmit = func(_ context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
			answer := taken(r)
			answer.Jobs[0].Holder = "holder"
			return answer, nil
		}
		h, err := Define[int, int]("count").Submit(t.Context(), f.client, 1, ID("own"))
		if err != nil || h.ID() != "holder" || h.Submitted().ID != "own" {
			t.Fatalf("%+v, %v", h, err)
		}
	})
}

// An unknown outcome leaves the id, with which the submission is repeated.
func TestDefinition_submitUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		f.nodes[0].onSubmit = func(context.Context, *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
			return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "no leader"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h, err := Define[int, int]("count").Submit(ctx, f.client, 1)
		if err == nil || h == nil || h.ID() == "" || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%+v, %v", h, err)
		}
	})
}

func TestUse_order(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(name string) Middleware {
		return func(next Handler) Handler {
			return func(ctx context.Context, job *Job) (Result, error) {
				order = append(order, name)
				return next(ctx, job)
			}
		}
	}
	c, err := Dial([]string{"127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := NewWorker(c, rota.WorkerSpec{Queues: []rota.QueueName{"q"}, Slots: 1}, Use(note("outer"), note("inner")))
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("x", func(context.Context, *Job) (Result, error) {
		order = append(order, "handler")
		return Result{}, nil
	})
	if _, err := w.handler("x")(t.Context(), nil); err != nil || strings.Join(order, " ") != "outer inner handler" {
		t.Fatalf("%v, %v", order, err)
	}
	if w.Handle("none", nil); w.handler("none") != nil {
		t.Error("middleware turns nil into a handler")
	}
}

func TestWithSubmitter_order(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(name string) func(Submitter) Submitter {
		return func(next Submitter) Submitter {
			return func(ctx context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
				order = append(order, name)
				return next(ctx, jobs...)
			}
		}
	}
	last := func(Submitter) Submitter {
		return func(context.Context, ...rota.JobSpec) ([]rota.Submitted, error) { return nil, nil }
	}
	c, err := Dial([]string{"127.0.0.1:1"}, WithSubmitter(note("outer"), note("inner")), WithSubmitter(last))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Submit(t.Context(), rota.NewJobSpec("x", nil)); err != nil || fmt.Sprint(order) != "[outer inner]" {
		t.Fatalf("%v, %v", order, err)
	}
	if h, err := Define[int, int]("x").Submit(t.Context(), c, 1); h != nil || rota.KindOf(err) != rota.KindInternal {
		t.Errorf("a submitter without an outcome: %v, %v", h, err)
	}
}

// A handler's context, and contexts derived from it, lead to its job and its log.
func TestWorker_contextHasTheJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		type own struct{}
		got := make(chan string, 1)
		w := f.worker(rota.WorkerSpec{}, func(ctx context.Context, job *Job) (Result, error) {
			ctx, cancel := context.WithTimeout(context.WithValue(ctx, own{}, 1), time.Hour)
			defer cancel()
			Log(ctx).Info("resizing", "n", 7)
			found, ok := FromContext(ctx)
			got <- fmt.Sprint(ok, found == job, ctx.Value(own{}), ctx.Value("none"))
			return Result{}, nil
		})
		s, _ := f.stream()
		s.welcome(1)
		s.answerBeat(100_000)
		s.assign(leaseOf("one"))
		batch := s.expect(rota.VerbComplete)
		if said := <-got; said != "true true 1 <nil>" {
			t.Errorf("the context has %s", said)
		}
		if log := string(batch.Commands[0].Log); !strings.Contains(log, "msg=resizing n=7") {
			t.Errorf("the attempt's log is %q", log)
		}
		s.answer(batch, peer.LeaseAnswer{})
		w.stopped(t, s)
	})
}

func TestLog_outsideOfAHandler(t *testing.T) {
	t.Parallel()
	if Log(t.Context()) != slog.Default() {
		t.Error("outside of a handler Log is not the default logger")
	}
	var said bytes.Buffer
	Log(NewContext(t.Context(), NewJob(*leaseOf("j"), nil, WithLog(io.Writer(&said))))).Info("hello")
	if !strings.Contains(said.String(), "hello") {
		t.Errorf("a test's job logged %q", said.String())
	}
}
