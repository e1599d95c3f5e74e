package rota

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/internal/millis"
)

func TestCheckShape(t *testing.T) {
	t.Parallel()
	sound := func() JobSpec {
		s := NewJobSpec("t", []byte("x"))
		s.ID, s.Tenant = "j", DefaultTenant
		return s
	}
	if s := sound(); s.CheckShape(MaxPayloadBytes) != nil {
		t.Fatal(s.CheckShape(MaxPayloadBytes))
	}
	many := make(map[string]string)
	for i := range MaxLabels + 1 {
		many[fmt.Sprint("k", i)] = ""
	}
	for field, change := range map[string]func(*JobSpec){
		"id":              func(s *JobSpec) { s.ID = "../x" },
		"queue":           func(s *JobSpec) { s.Queue = JobSpec{}.Queue },
		"type":            func(s *JobSpec) { s.Type = JobType(strings.Repeat("a", MaxIDBytes+1)) },
		"zone":            func(s *JobSpec) { s.Zone = "z\x00" },
		"priority":        func(s *JobSpec) { s.Priority = 11 },
		"fee":             func(s *JobSpec) { s.Fee = -1 },
		"cpu_milli":       func(s *JobSpec) { s.CPUMilli = 1 << 62 },
		"delay_ms":        func(s *JobSpec) { s.Delay = millis.Duration(1 << 62) },
		"payload":         func(s *JobSpec) { s.Payload = make([]byte, MaxPayloadBytes+1) },
		"expected_digest": func(s *JobSpec) { s.ExpectedDigest = make([]byte, 31) },
		"requires":        func(s *JobSpec) { s.Requires = []string{"two words"} },
		"regions_allow":   func(s *JobSpec) { s.RegionsAllow = make([]string, MaxRegions+1) },
		"labels":          func(s *JobSpec) { s.Labels = many },
	} {
		s := sound()
		change(&s)
		var e *Error
		if err := s.CheckShape(MaxPayloadBytes); !errors.As(err, &e) || e.Kind != KindInvalid || e.Subject != field ||
			!strings.Contains(e.Text, field) {
			t.Errorf("a wrong %s: %v", field, err)
		}
	}
}

func TestMoves(t *testing.T) {
	t.Parallel()
	for from := JobNone; from <= JobCancelled; from++ {
		for to := JobNone; to <= JobCancelled; to++ {
			if from.MayBecome(to) && (to == JobNone || from == to) {
				t.Errorf("%s may become %s", from, to)
			}
			// Invariant I7: only a revival leaves a terminal state, and a rejected proof, which may have been the last
			// attempt's.
			rejected := from == JobCompleted && to == JobDead
			if from.Terminal() && from.MayBecome(to) && to != JobQueued && to != JobDelayed && !rejected {
				t.Errorf("terminal %s may become %s", from, to)
			}
			if to.Leased() && from.MayBecome(to) && from != JobQueued && from != JobAssigned {
				t.Errorf("%s may become %s without a lease", from, to)
			}
		}
	}
	if !JobQueued.MayBecome(JobAssigned) || !JobAssigned.MayBecome(JobRunning) || !JobRunning.MayBecome(JobCompleted) ||
		JobQueued.MayBecome(JobCompleted) {
		t.Error("a job's way is not that of SPEC §1")
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	type all struct {
		Lease  LeaseID
		Token  Token
		Digest Digest
		State  JobState
		Reason Reason
		Rule   ReasoningRule
		Text   Blob
		Binary Blob
		Hex    Hex
	}
	in := all{LeaseID{1, 31: 2}, Token{3, 4}, Digest{5, 6}, JobRunning, ReasonLeaseExpired, ReasoningByRoundRobin,
		Blob("text"), Blob{0xff, 0}, Hex{0xab}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Token":"3.4"`, `"State":"RUNNING"`, `"Reason":"LEASE_EXPIRED"`, `"Text":"text"`,
		`{"base64":"/wA="}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	var out all
	if err := json.Unmarshal(text, &out); err != nil || fmt.Sprint(out) != fmt.Sprint(in) {
		t.Errorf("%v came back as %v, %v", in, out, err)
	}
	for _, wrong := range []string{`{"State":"RUN"}`, `{"Lease":"00"}`, `{"Token":"3"}`, `{"Digest":"x"}`,
		`{"Text":{"base64":1}}`, `{"Hex":"xy"}`} {
		if err := json.Unmarshal([]byte(wrong), &all{}); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

func TestTokensGrow(t *testing.T) {
	t.Parallel()
	ordered := []Token{{}, {1, 1}, {1, 2}, {2, 0}, {2, 9}}
	for i := range ordered {
		for j := range ordered {
			if ordered[i].Compare(ordered[j]) < 0 != (i < j) {
				t.Errorf("%v less than %v: %v", ordered[i], ordered[j], i >= j)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	e := &Error{Kind: KindExhausted, Op: "submit", Text: "full", RetryAfter: time.Second}
	if err := fmt.Errorf("outer: %w", e); KindOf(err) != KindExhausted || RetryAfterOf(err) != time.Second ||
		err.Error() != "outer: submit: full" {
		t.Error(err)
	}
	if KindOf(nil) != KindNone || KindOf(errors.New("x")) != KindInternal {
		t.Error("a stranger's error has a kind of ours")
	}
}

// TestOutcomesHaveNoTypedNil checks that an outcome's Err is nil wherever nothing was rejected, also once it is passed
// on as an error.
func TestOutcomesHaveNoTypedNil(t *testing.T) {
	t.Parallel()
	var none *Error
	var err error = Submitted{Err: none.OrNil()}.Err
	if err != nil || (JobOutcome{}).Err != err || ErrorOf(err) != nil {
		t.Errorf("nothing refused is %v", err)
	}
	e := Refusef(KindExhausted, "queue", "full")
	if got := e.OrNil(); got != error(e) || ErrorOf(fmt.Errorf("submit: %w", got)) != e {
		t.Errorf("%v is %v", e, got)
	}
	if got := ErrorOf(errors.New("boom")); got.Kind != KindInternal || got.Error() != "boom" {
		t.Errorf("a stranger is %+v", got)
	}
}
