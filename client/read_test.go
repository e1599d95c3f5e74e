package client

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// shelf serves jobs j0, j1, … in pages of at most most, and records its requests.
type shelf struct {
	jobs, most int
	asked      []string
}

func (s *shelf) list(r *rotav1.ListJobsRequest) (*rotav1.ListJobsResponse, error) {
	s.asked = append(s.asked, fmt.Sprintf("%s+%d@%d", r.GetCursor(), r.GetLimit(), r.GetRead().GetMinIndex()))
	from, _ := strconv.Atoi(r.GetCursor())
	answer := &rotav1.ListJobsResponse{At: &rotav1.ReadAt{Index: 7}}
	for i := from; i < s.jobs; i++ {
		if len(answer.Jobs) == min(s.most, int(r.GetLimit())) {
			answer.NextCursor = strconv.Itoa(i)
			break
		}
		job := rota.Job{}
		job.ID = rota.JobID(fmt.Sprint("j", i))
		answer.Jobs = append(answer.Jobs, words.JobToWire(&job))
	}
	return answer, nil
}

// TestJobs_pagesByItself checks that a listing reads page after page, each as new as the first, up to its limit or the
// end of the loop, and returns the cursor of the next listing.
func TestJobs_pagesByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		for _, c := range []struct {
			name   string
			filter rota.JobFilter
			leave  int
			jobs   int
			asked  []string
			next   string
		}{
			{name: "all", jobs: 8, asked: []string{"+500@0", "3+500@7", "6+500@7"}},
			{name: "a limit", filter: rota.JobFilter{Limit: 5}, jobs: 5, asked: []string{"+5@0", "3+2@7"}, next: "5"},
			{name: "a limit beyond all", filter: rota.JobFilter{Limit: 5000, Cursor: "6"}, jobs: 2,
				asked: []string{"6+1000@0"}},
			{name: "a broken loop", leave: 4, jobs: 4, asked: []string{"+500@0", "3+500@7"}, next: "as it was"},
			{name: "a loop broken at a page's end", leave: 3, jobs: 3, asked: []string{"+500@0"}, next: "as it was"},
		} {
			s := &shelf{jobs: 8, most: 3}
			f.nodes[0].onList = s.list
			next, seen, got := "as it was", rota.ReadAt{}, 0
			listing := f.client.Jobs(t.Context(), c.filter, Next(&next), Seen(&seen))
			for range 2 { // a listing can be read again
				s.asked, got = nil, 0
				for job, err := range listing {
					if err != nil || seen.Index != 7 {
						t.Fatalf("%s: %v, %+v, %+v", c.name, err, job, seen)
					}
					if got++; got == c.leave {
						break
					}
				}
				if got != c.jobs || next != c.next || !slices.Equal(s.asked, c.asked) {
					t.Errorf("%s: %d jobs, next %q, asked %q; want %d, %q, %q", c.name, got, next, s.asked, c.jobs,
						c.next, c.asked)
				}
			}
		}
	})
}

// TestJobs_endsWithItsError checks that an error is the last item of a listing, even in the middle of it.
func TestJobs_endsWithItsError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		s := &shelf{jobs: 8, most: 3}
		f.nodes[0].onList = func(r *rotav1.ListJobsRequest) (*rotav1.ListJobsResponse, error) {
			if r.GetCursor() != "" {
				return nil, words.ToStatus(rota.Refusef(rota.KindDenied, "", "revoked"))
			}
			return s.list(r)
		}
		jobs, err := Collect(f.client.Jobs(t.Context(), rota.JobFilter{}))
		if len(jobs) != 3 || rota.KindOf(err) != rota.KindDenied {
			t.Errorf("%d jobs, %v", len(jobs), err)
		}
	})
}

// broken reads one item and leaves the loop; it reports whether there was an item.
func broken[T any](listing iter.Seq2[T, error]) bool {
	for _, err := range listing {
		return err == nil
	}
	return false
}

// goroutines counts those of the client, its connections and its nodes.
func goroutines() (n int) {
	stacks := make([]byte, 1<<20)
	for _, g := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(g, "rota/client.") || strings.Contains(g, "grpc") {
			n++
		}
	}
	return n
}

// TestLoops_leaveNothing checks that leaving a loop early leaves no stream at the node and no goroutine here. It is not
// parallel because it counts goroutines.
func TestLoops_leaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, stop := setup(t, 1)
		defer stop()
		f.nodes[0].onList = (&shelf{jobs: 8, most: 3}).list
		f.nodes[0].onTail = func(_ *rotav1.TailRequest, s grpc.ServerStreamingServer[rotav1.EventBatch]) error {
			for seq := uint32(0); ; seq++ {
				e := &rota.ServedEvent{Event: rota.Event{ID: rota.EventID{Incarnation: 1, Index: 5, Seq: seq}}}
				if err := s.Send(&rotav1.EventBatch{Events: []*rotav1.ServedEvent{words.EventToWire(e)}}); err != nil {
					return err
				}
			}
		}
		f.nodes[0].onWait = func(_ *rotav1.WaitJobsRequest, s grpc.ServerStreamingServer[rotav1.Job]) error {
			_ = tell(s, "a")
			_ = tell(s, "b")
			<-s.Context().Done()
			return s.Context().Err()
		}
		f.nodes[0].flows.onOutputs = func(r *rotav1.ParentOutputsRequest, s grpc.ServerStreamingServer[rotav1.ParentOutput]) error {
			for {
				if err := s.Send(&rotav1.ParentOutput{Node: "p"}); err != nil {
					return err
				}
			}
		}
		many := []rota.JobID{"a", "b"}
		for i := range 3 * waitIDs {
			many = append(many, rota.JobID(fmt.Sprint("more-", i)))
		}
		ctx := context.Background() // only leaving the loop ends them
		loops := map[string]func() bool{
			"jobs":    func() bool { return broken(f.client.Jobs(ctx, rota.JobFilter{})) },
			"events":  func() bool { return broken(f.client.Events(ctx, rota.EventFilter{Follow: true})) },
			"wait":    func() bool { return broken(f.client.Wait(ctx, "a", "b", "c")) },
			"many":    func() bool { return broken(f.client.Wait(ctx, many...)) },
			"parents": func() bool { return broken(f.client.ParentOutputs(ctx, "f1/sum")) },
		}
		for name, loop := range loops {
			loop() // the first call connects
			synctest.Wait()
			before := goroutines()
			if !loop() {
				t.Errorf("%s: nothing arrived", name)
			}
			synctest.Wait()
			if after := goroutines(); after != before {
				t.Errorf("%s: %d goroutines before, %d after", name, before, after)
			}
		}
	})
}
