package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

func wireJob(id string) *rotav1.JobSpec {
	s := rota.NewJobSpec("resize", []byte("x"))
	s.ID = rota.JobID(id)
	return words.JobSpecToWire(&s)
}

// kindOf returns the kind that a caller sees.
func kindOf(err error) rota.Kind { return rota.KindOf(errOrNil(words.FromStatus(err))) }

func errOrNil(e *rota.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	t.Run("refuses_one_job_and_takes_the_others", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var seen []rota.JobSpec
		b.core.submit = func(_ context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
			seen = jobs
			return []rota.Submitted{{ID: "a", State: rota.JobQueued, Index: 8},
				{ID: "c", Index: 7, Err: &rota.Error{Kind: rota.KindExhausted, Op: "submit", Text: "full",
					RetryAfter: 1e9}}}, nil
		}
		big := wireJob("big")
		big.Payload = make([]byte, rota.MaxPayloadBytes+1)
		unnamed := wireJob("")
		answer, err := b.jobs.Submit(bounded(t), &rotav1.SubmitRequest{
			Jobs: []*rotav1.JobSpec{wireJob("a"), big, {Id: "c", Type: "t"}, unnamed}})
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) != 2 || seen[1].Tenant != rota.DefaultTenant || seen[1].Queue != rota.DefaultQueue ||
			seen[1].Priority != rota.DefaultPriority {
			t.Errorf("the core saw %+v", seen)
		}
		if answer.GetIndex() != 8 || answer.GetJobs()[0].GetState() != "QUEUED" {
			t.Errorf("answer is %v", answer)
		}
		for place, want := range map[int]struct{ id, kind, subject string }{
			1: {"big", "INVALID", "payload"}, 2: {"c", "EXHAUSTED", ""}, 3: {"", "INVALID", "id"},
		} {
			got := answer.GetJobs()[place]
			if got.GetId() != want.id || got.GetRefusal().GetKind() != want.kind ||
				got.GetRefusal().GetSubject() != want.subject {
				t.Errorf("place %d: got %v, want %v", place, got, want)
			}
		}
		if e := words.RefusalFromWire(answer.GetJobs()[2].GetRefusal()); e.RetryAfter != 1e9 || e.Op != "submit" {
			t.Errorf("refusal is %+v", e)
		}
	})
	t.Run("names_the_leader_where_it_is_another_node", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, api := range []string{"", "node2:6470"} {
			b.core.leader.API = api
			var trailer metadata.MD
			_, err := b.jobs.Submit(bounded(t), &rotav1.SubmitRequest{Jobs: []*rotav1.JobSpec{wireJob("a")}},
				grpc.Trailer(&trailer))
			if named := strings.Join(trailer.Get(words.LeaderKey), "+"); err != nil || named != api {
				t.Errorf("leader: got %[2]q, want %[1]q: %[3]v", api, named, err)
			}
		}
	})
	t.Run("refuses_empty_and_long_batches", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, n := range []int{0, limits.MaxBatchJobs + 1} {
			req := &rotav1.SubmitRequest{}
			for i := range n {
				req.Jobs = append(req.Jobs, wireJob(fmt.Sprint("j", i)))
			}
			if _, err := b.jobs.Submit(bounded(t), req); kindOf(err) != rota.KindInvalid {
				t.Errorf("%d jobs: got %v", n, err)
			}
		}
	})
	t.Run("refuses_a_message_over_the_limit", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, n := range []int{5, 20} { // rejected by us, and by gRPC itself
			req := &rotav1.SubmitRequest{}
			for i := range n {
				job := wireJob(fmt.Sprint("j", i))
				job.Payload = make([]byte, rota.MaxPayloadBytes)
				req.Jobs = append(req.Jobs, job)
			}
			if _, err := b.jobs.Submit(bounded(t), req); kindOf(err) != rota.KindInvalid {
				t.Errorf("%d bytes: got %v", proto.Size(req), err)
			}
		}
	})
	t.Run("notices_a_core_that_answers_too_few", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.core.submit = func(context.Context, []rota.JobSpec) ([]rota.Submitted, error) { return nil, nil }
		_, err := b.jobs.Submit(bounded(t), &rotav1.SubmitRequest{Jobs: []*rotav1.JobSpec{wireJob("a")}})
		if kindOf(err) != rota.KindInternal {
			t.Errorf("got %v", err)
		}
	})
}

func TestWait(t *testing.T) {
	t.Parallel()
	t.Run("streams_in_the_order_they_end", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stream, err := b.jobs.Wait(bounded(t), &rotav1.WaitJobsRequest{Ids: []string{"b", "a"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"b", "a"} {
			if job, err := stream.Recv(); err != nil || job.GetSpec().GetId() != want ||
				job.GetState() != "COMPLETED" {
				t.Fatalf("got %v, %v", job, err)
			}
		}
		if _, err := stream.Recv(); err != io.EOF {
			t.Errorf("the end is %v", err)
		}
	})
	t.Run("is_told_to_go_elsewhere_when_the_node_drains", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		waiting := make(chan struct{})
		b.core.await = func(ctx context.Context, _ []rota.JobID, _ func(rota.Job) error) error {
			close(waiting)
			<-ctx.Done()
			return ctx.Err()
		}
		stream, err := b.jobs.Wait(bounded(t), &rotav1.WaitJobsRequest{Ids: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		<-waiting
		if err := b.server.Drain(bounded(t)); err != nil {
			t.Error(err)
		}
		if _, err := stream.Recv(); kindOf(err) != rota.KindUnavailable || !strings.Contains(err.Error(),
			"another node") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSaveSnapshot_streamsInChunks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	b.core.snapshot = func(_ context.Context, w io.Writer) error {
		for i := 0; i < len(want); i += 100_001 {
			if _, err := w.Write(want[i:min(i+100_001, len(want))]); err != nil {
				return err
			}
		}
		return nil
	}
	stream, err := b.cluster.SaveSnapshot(bounded(t), &rotav1.SaveSnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for {
		chunk, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(chunk.GetData()) > chunkBytes {
			t.Errorf("a chunk has %d bytes", len(chunk.GetData()))
		}
		got = append(got, chunk.GetData()...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, want %d", len(got), len(want))
	}
}

// unaryRow is a unary call: a well-formed request with a part of its answer, and a malformed one.
type unaryRow struct {
	good, bad func(context.Context) (proto.Message, error)
	want      string
}

// everyUnary returns each unary call, once well-formed and once not.
func everyUnary(b *bundle) map[string]unaryRow {
	type call = func(context.Context) (proto.Message, error)
	type row = unaryRow
	get := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.jobs.Get(ctx, &rotav1.GetJobRequest{Id: id, Read: &rotav1.Read{MinIndex: 11}})
		}
	}
	log := func(attempt int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.jobs.Log(ctx, &rotav1.JobLogRequest{Id: "j1", Attempt: &attempt})
		}
	}
	list := func(req *rotav1.ListJobsRequest) call {
		return func(ctx context.Context) (proto.Message, error) { return b.jobs.List(ctx, req) }
	}
	worker := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.workers.Get(ctx, &rotav1.GetWorkerRequest{Id: id})
		}
	}
	drain := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.workers.Drain(ctx, &rotav1.DrainWorkerRequest{Id: id})
		}
	}
	queue := func(name string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.queues.Get(ctx, &rotav1.GetQueueRequest{Name: name})
		}
	}
	set := func(name, preset, key, value string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.queues.Set(ctx, &rotav1.SetQueueRequest{
				Name: name, Preset: preset, Set: []*rotav1.Setting{{Key: key, Value: value}}})
		}
	}
	ids := func(id ...string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return b.jobs.Cancel(ctx, &rotav1.CancelJobsRequest{Ids: id})
		}
	}
	return map[string]row{
		"jobs get": {get("j1"), get("no id"), `index:11`},
		"jobs list": {list(&rotav1.ListJobsRequest{Queue: "q", State: "DEAD"}),
			list(&rotav1.ListJobsRequest{State: "LOST"}), `state:"DEAD"`},
		"jobs list limit": {list(&rotav1.ListJobsRequest{}), list(&rotav1.ListJobsRequest{Limit: limits.MaxPage + 1}),
			`next_cursor:"n"`},
		"jobs list cursor": {list(&rotav1.ListJobsRequest{Cursor: "c"}),
			list(&rotav1.ListJobsRequest{Cursor: strings.Repeat("c", 2000)}), `"j1"`},
		"jobs log":    {log(3), log(-1), `text:"said`},
		"jobs cancel": {ids("a"), ids(), `state:"CANCELLED"`},
		"jobs interrupt": {
			func(ctx context.Context) (proto.Message, error) {
				return b.jobs.Interrupt(ctx, &rotav1.InterruptJobsRequest{Ids: []string{"a"}, Counted: true})
			}, func(ctx context.Context) (proto.Message, error) {
				return b.jobs.Interrupt(ctx, &rotav1.InterruptJobsRequest{})
			}, `state:"RUNNING"`},
		"jobs run now": {
			func(ctx context.Context) (proto.Message, error) {
				return b.jobs.RunNow(ctx, &rotav1.RunJobsNowRequest{Ids: []string{"a"}})
			}, func(ctx context.Context) (proto.Message, error) {
				return b.jobs.RunNow(ctx, &rotav1.RunJobsNowRequest{})
			}, `state:"QUEUED"`},
		"workers get":   {worker("w1"), worker(""), `status:"ACTIVE"`},
		"workers drain": {drain("w1"), drain("ü"), `status:"DRAINING"`},
		"queues get":    {queue("q"), queue(""), `name:"q"`},
		"queues set": {set("q", "standard", "t_lease", "90s"), set("q", "", "t_lease", "9 ells"),
			`value:"90000"`},
		"queues preset":   {set("q", "", "paused", "on"), set("q", "fancy", "paused", "on"), `value:"true"`},
		"queues set name": {set("q", "aicf-ai", "weight", "2"), set("", "", "weight", "2"), `name:"q"`},
		"cluster transfer": {
			func(ctx context.Context) (proto.Message, error) {
				return b.cluster.TransferLeadership(ctx, &rotav1.TransferLeadershipRequest{To: "n3"})
			}, func(ctx context.Context) (proto.Message, error) {
				return b.cluster.TransferLeadership(ctx, &rotav1.TransferLeadershipRequest{To: "n 3"})
			}, `leader:"n3"`},
		"cluster remove": {
			func(ctx context.Context) (proto.Message, error) {
				return b.cluster.RemovePeer(ctx, &rotav1.RemovePeerRequest{Id: "n3"})
			}, func(ctx context.Context) (proto.Message, error) {
				return b.cluster.RemovePeer(ctx, &rotav1.RemovePeerRequest{})
			}, ``},
		"cluster set": {
			func(ctx context.Context) (proto.Message, error) {
				return b.cluster.Set(ctx, &rotav1.SetClusterRequest{Set: []*rotav1.Setting{{Key: "state_bytes_max",
					Value: "2GiB"}}})
			}, func(ctx context.Context) (proto.Message, error) {
				return b.cluster.Set(ctx, &rotav1.SetClusterRequest{Set: []*rotav1.Setting{{Key: "state_bytes_max",
					Value: "1"}}})
			}, `state_bytes_max:2147483648`},
		"cluster store backup": {func(ctx context.Context) (proto.Message, error) {
			return b.cluster.StoreBackup(ctx, &rotav1.StoreBackupRequest{})
		}, nil, `name:"c-1.snap"`},
		"cluster install tzdata": {func(ctx context.Context) (proto.Message, error) {
			return b.cluster.InstallTZData(ctx, &rotav1.InstallTZDataRequest{Release: "2026f", ReleasedMs: 1,
				Data: []byte("z")})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.cluster.InstallTZData(ctx, &rotav1.InstallTZDataRequest{Release: "2026", ReleasedMs: 1,
				Data: []byte("z")})
		}, `release:"2026f"`},
		"cluster status": {func(ctx context.Context) (proto.Message, error) {
			return b.cluster.Status(ctx, &rotav1.StatusRequest{})
		}, nil, `leader:"n2"`},
		"cluster attention": {func(ctx context.Context) (proto.Message, error) {
			return b.cluster.Attention(ctx, &rotav1.AttentionRequest{})
		}, nil, `checked:"1 node"`},
		"cluster peers": {func(ctx context.Context) (proto.Message, error) {
			return b.cluster.Peers(ctx, &rotav1.PeersRequest{})
		}, nil, `address:"a:1"`},
		"cluster leave": {func(ctx context.Context) (proto.Message, error) {
			return b.cluster.Leave(ctx, &rotav1.LeaveRequest{})
		}, nil, ``},
		"cluster verify": {func(ctx context.Context) (proto.Message, error) {
			return b.cluster.Verify(ctx, &rotav1.VerifyRequest{})
		}, nil, `equal:true`},
		"workers list": {func(ctx context.Context) (proto.Message, error) {
			return b.workers.List(ctx, &rotav1.ListWorkersRequest{})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.workers.List(ctx, &rotav1.ListWorkersRequest{Limit: -1})
		}, `index:4`},
		"queues list": {func(ctx context.Context) (proto.Message, error) {
			return b.queues.List(ctx, &rotav1.ListQueuesRequest{})
		}, func(ctx context.Context) (proto.Message, error) {
			return b.queues.List(ctx, &rotav1.ListQueuesRequest{Limit: 1001})
		}, `index:4`},
	}
}

func TestEveryUnary(t *testing.T) {
	t.Parallel()
	b, broken := setup(t), setup(t)
	want := &rota.Error{Kind: rota.KindMode, Op: "x", Subject: "s", Text: "the cluster is READ_ONLY",
		RetryAfter: 1500e6}
	broken.core.err = want
	for name, row := range join(everyUnary(b), limitsUnary(b), flowsUnary(b), authUnary(b), schedulesUnary(b),
		batchesUnary(b), webhooksUnary(b), plansUnary(b)) {
		answer, err := row.good(bounded(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if text := strings.ReplaceAll(fmt.Sprint(answer), ":  ",
			":"); !strings.Contains(strings.ReplaceAll(text, ": ", ":"), row.want) {
			t.Errorf("%s: got %v, want %s in it", name, answer, row.want)
		}
		if row.bad == nil {
			continue
		}
		if _, err := row.bad(bounded(t)); kindOf(err) != rota.KindInvalid {
			t.Errorf("%s, misshapen: got %v, want INVALID", name, err)
		}
	}
	for name, row := range join(everyUnary(broken), limitsUnary(broken), flowsUnary(broken), authUnary(broken)) {
		_, err := row.good(bounded(t))
		if got := words.FromStatus(err); got == nil || *got != *want {
			t.Errorf("%s, refused: got %+v", name, got)
		}
	}
}

func TestOutcomes_refuseOneIDAndTakeTheOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := []string{"a", "no id", "c"}
	retried, err := b.jobs.Retry(bounded(t), &rotav1.RetryJobsRequest{Ids: ids})
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := b.jobs.Delete(bounded(t), &rotav1.DeleteJobsRequest{Ids: ids})
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []*rotav1.JobOutcomes{retried, deleted} {
		jobs := answer.GetJobs()
		if len(jobs) != 3 || jobs[0].GetId() != "a" || jobs[2].GetId() != "c" ||
			jobs[1].GetRefusal().GetKind() != "INVALID" {
			t.Errorf("got %v", jobs)
		}
	}
	if _, err := b.jobs.Delete(bounded(t),
		&rotav1.DeleteJobsRequest{}); words.FromStatus(err).Kind != rota.KindInvalid {
		t.Error(err)
	}
}
