package transport

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/millis"
)

// TestSubmit_refusesHostileWords covers rows 7 and 8 of the hostile list at the edge: no such job reaches the core. The
// state machine rejects the same on its own (fsm, TestSubmit/refuses_what_is_out_of_shape).
func TestSubmit_refusesHostileWords(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.core.submit = func(_ context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
		t.Errorf("the core was asked about %+v", jobs)
		return make([]rota.Submitted, len(jobs)), nil
	}
	changes := map[string]func(s *rota.JobSpec){
		"year 292277026596":    func(s *rota.JobSpec) { s.NotBefore = rota.Date(math.MaxInt64).Time() },
		"year 1":               func(s *rota.JobSpec) { s.NotBefore = rota.Date(-62135596800000).Time() },
		"the least date":       func(s *rota.JobSpec) { s.NotBefore = rota.Date(math.MinInt64).Time() },
		"a negative delay":     func(s *rota.JobSpec) { s.Delay = millis.Duration(-1) },
		"a delay for ever":     func(s *rota.JobSpec) { s.Delay = millis.Duration(math.MaxInt64) },
		"a negative fee":       func(s *rota.JobSpec) { s.Fee = -1 },
		"a fee that overflows": func(s *rota.JobSpec) { s.Fee = math.MaxInt64 },
		"priority 11":          func(s *rota.JobSpec) { s.Priority = 11 },
		"priority -2^31":       func(s *rota.JobSpec) { s.Priority = math.MinInt32 },
		"the least limit":      func(s *rota.JobSpec) { s.Limits = map[string]int64{"depth": math.MinInt64} },
	}
	for name, id := range map[string]string{"NUL": "a\x00b", "right to left": "a\u202eb", "not composed": "e\u0301",
		"a homoglyph": "j\u043eb", "a path": "../etc", "a long one": strings.Repeat("x", 1<<19),
		"a new line": "a\nlevel=ERROR"} {
		changes["id with "+name] = func(s *rota.JobSpec) { s.ID = rota.JobID(id) }
	}
	for name, change := range changes {
		spec := rota.NewJobSpec("x", nil)
		spec.ID = "a"
		change(&spec)
		answer, err := b.jobs.Submit(bounded(t),
			&rotav1.SubmitRequest{Jobs: []*rotav1.JobSpec{words.JobSpecToWire(&spec)}})
		switch {
		case err != nil:
			if kindOf(err) != rota.KindInvalid {
				t.Errorf("%s: %v", name, err)
			}
		case len(answer.GetJobs()) != 1 || answer.GetJobs()[0].GetRefusal() == nil:
			t.Errorf("%s: taken: %v", name, answer)
		}
	}
}
