package transport

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

func TestListJobs_cutsPagesByBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const total, each = 20, 200 << 10
	b.core.jobs = func(_ context.Context, f rota.JobFilter, opt peer.ReadOptions) (rota.JobPage, rota.ReadAt,
		error) {
		first := 0
		if f.Cursor != "" {
			_, _ = fmt.Sscan(f.Cursor, &first)
		}
		page := rota.JobPage{}
		for i := first; i < total && len(page.Jobs) < f.Limit; i++ {
			page.Jobs = append(page.Jobs, rota.Job{
				JobSpec: rota.JobSpec{ID: rota.JobID(fmt.Sprint("j", i)), Payload: make([]byte, each)}})
		}
		if next := first + len(page.Jobs); next < total {
			page.NextCursor = fmt.Sprint(next)
		}
		return page, rota.ReadAt{Index: 5 + opt.MinIndex}, nil
	}
	seen, cursor := 0, ""
	for {
		answer, err := b.jobs.List(bounded(t), &rotav1.ListJobsRequest{Limit: 100, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(answer); size > pageBytes+1024 {
			t.Errorf("a page has %d bytes", size)
		}
		for _, job := range answer.GetJobs() {
			if want := fmt.Sprint("j", seen); job.GetSpec().GetId() != want {
				t.Fatalf("got %s, want %s", job.GetSpec().GetId(), want)
			}
			seen++
		}
		if cursor = answer.GetNextCursor(); cursor == "" {
			break
		}
	}
	if seen != total {
		t.Errorf("%d jobs were listed, want %d", seen, total)
	}
}

func TestLists_comeInPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		const total = 4_000
		for i := total - 1; i >= 0; i-- {
			b.core.queues = append(b.core.queues, rota.Queue{Name: rota.QueueName(fmt.Sprintf("q%05d", i)),
				Policy: rota.StandardPolicy()})
			b.core.workers = append(b.core.workers,
				rota.Worker{WorkerSpec: rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprintf("w%05d", i))}})
		}
		if _, err := b.queues.List(bounded(t), &rotav1.ListQueuesRequest{}); kindOf(err) != rota.KindInvalid {
			t.Errorf("a list of many megabytes: got %v", err)
		}
		whole, err := b.workers.List(bounded(t), &rotav1.ListWorkersRequest{})
		if err != nil || len(whole.GetWorkers()) != total || whole.GetNextCursor() != "" {
			t.Errorf("whole: got %d, %v", len(whole.GetWorkers()), err)
		}
		seen, cursor := 0, ""
		for {
			answer, err := b.queues.List(bounded(t), &rotav1.ListQueuesRequest{Limit: 1000, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			if size := proto.Size(answer); size > pageBytes+1024 || len(answer.GetQueues()) > 1000 {
				t.Errorf("a page has %d queues, %d bytes", len(answer.GetQueues()), size)
			}
			for _, q := range answer.GetQueues() {
				if want := fmt.Sprintf("q%05d", seen); q.GetName() != want {
					t.Fatalf("got %s, want %s", q.GetName(), want)
				}
				seen++
			}
			if cursor = answer.GetNextCursor(); cursor == "" {
				break
			}
		}
		if seen != total {
			t.Errorf("%d queues were listed, want %d", seen, total)
		}
		page, err := b.workers.List(bounded(t), &rotav1.ListWorkersRequest{Limit: 2, Cursor: "w00001x"})
		if err != nil || len(page.GetWorkers()) != 2 || page.GetWorkers()[0].GetSpec().GetId() != "w00002" {
			t.Errorf("after a cursor that is not a key: got %v, %v", page, err)
		}
	})
}
