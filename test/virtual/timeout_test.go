package virtual

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// TestMaxRuntime checks SPEC §20.2 from the client's handler to the job's end: an attempt that takes longer than
// max_runtime counts and ends TIMED_OUT, whether its handler stops promptly or not at all, and attempt_max limits their
// number.
func TestMaxRuntime(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		for name, stubborn := range map[string]bool{"that stops promptly": false, "that does not stop": true} {
			t.Run(strconv.Itoa(attempts)+" of a handler "+name, func(t *testing.T) {
				settings := []rota.Setting{{Key: "attempt_max", Value: strconv.Itoa(attempts)},
					{Key: "max_runtime", Value: "5s"}, {Key: "backoff_base_ms", Value: "500ms"}}
				play(t, settings, func(s *scene) {
					release := make(chan struct{})
					h := func(ctx context.Context, _ *client.Job) (client.Result, error) {
						if stubborn {
							<-release
							return client.Result{}, nil
						}
						select {
						case <-ctx.Done():
							return client.Result{}, context.Cause(ctx)
						case <-time.After(time.Minute):
							return client.Result{}, nil
						}
					}
					// One worker for each attempt: a handler that still runs keeps its worker from another attempt of
					// the job.
					var workers []*sceneWorker
					for i := range attempts {
						workers = append(workers, s.work(rota.WorkerID("w"+strconv.Itoa(i)), h))
					}
					s.submit("slow")
					j := s.over("slow")
					close(release)
					var timedOut []int32
					for _, a := range j.Attempts {
						switch {
						case a.End == rota.ReasonTimedOut:
							timedOut = append(timedOut, a.Number)
							if took := a.Ended.Clock - a.Started.Clock; took < 3_500 || took > 5_500 {
								t.Errorf("attempt %d took %d ms", a.Number, took)
							}
						case a.End != rota.ReasonDeclined: // by the worker that is still at the first
							t.Errorf("attempt %+v", a)
						}
					}
					if j.State != rota.JobDead || j.Reason != rota.ReasonTimedOut || len(timedOut) != attempts ||
						timedOut[attempts-1] != int32(attempts-1) ||
						s.begun["slow"] != attempts {
						t.Errorf("attempts %v timed out, %d handlers began: %+v", timedOut, s.begun["slow"], j)
					}
					for _, k := range workers {
						k.stop()
						if err := <-k.ended; err != nil {
							t.Error(err)
						}
					}
				})
			})
		}
	}
}
