package words

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// anyWords returns generators of valid Go values by reflection: enumerations only have known values, errors only what
// the wire can carry.
func anyWords() rapid.MakeConfig {
	return rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[rota.JobState](): rapid.Map(rapid.Uint8Range(0, uint8(rota.JobCancelled)),
			func(v uint8) any { return rota.JobState(v) }),
		reflect.TypeFor[rota.LeaseState](): rapid.Map(rapid.Uint8Range(0, uint8(rota.LeaseCancelled)),
			func(v uint8) any { return rota.LeaseState(v) }),
		reflect.TypeFor[rota.WorkerStatus](): rapid.Map(rapid.Uint8Range(0, uint8(rota.WorkerUnreachable)),
			func(v uint8) any { return rota.WorkerStatus(v) }),
		reflect.TypeFor[rota.ClusterMode](): rapid.Map(rapid.Uint8Range(0, uint8(rota.ModeDraining)),
			func(v uint8) any { return rota.ClusterMode(v) }),
		reflect.TypeFor[rota.GateTimeout](): rapid.Map(rapid.Uint8Range(0, uint8(rota.GateCompletes)),
			func(n uint8) any { return rota.GateTimeout(n) }),
		reflect.TypeFor[rota.NodeRun](): rapid.Map(rapid.Uint8Range(0, uint8(rota.RunAlways)),
			func(n uint8) any { return rota.NodeRun(n) }),
		reflect.TypeFor[rota.Reason](): rapid.Map(rapid.Uint8Range(0, uint8(rota.ReasonLast)),
			func(v uint8) any { return rota.Reason(v) }),
		reflect.TypeFor[rota.ServiceTier](): rapid.Map(rapid.Uint8Range(0, uint8(rota.TierPremium)),
			func(v uint8) any { return rota.ServiceTier(v) }),
		reflect.TypeFor[rota.ReasoningRule](): rapid.Map(rapid.Uint8Range(0, uint8(rota.ReasoningByPreemption)),
			func(v uint8) any { return rota.ReasoningRule(v) }),
		reflect.TypeFor[rota.LeaseVerb](): rapid.Map(rapid.Uint8Range(uint8(rota.VerbAck),
			uint8(rota.VerbProgress)), func(v uint8) any { return rota.LeaseVerb(v) }),
		reflect.TypeFor[peer.FailKind](): rapid.Map(rapid.Uint8Range(0, uint8(peer.FailLast)),
			func(v uint8) any { return peer.FailKind(v) }),
		reflect.TypeFor[rota.WorkflowState](): rapid.Map(rapid.Uint8Range(0, uint8(rota.WorkflowCancelled)),
			func(v uint8) any { return rota.WorkflowState(v) }),
		reflect.TypeFor[rota.FailurePolicy](): rapid.Map(rapid.Uint8Range(0, uint8(rota.FailureContinue)),
			func(v uint8) any { return rota.FailurePolicy(v) }),
		reflect.TypeFor[rota.NodeState](): rapid.Map(rapid.Uint8Range(0, uint8(rota.NodeWaiting)),
			func(v uint8) any { return rota.NodeState(v) }),
		reflect.TypeFor[*rota.Error](): rapid.Custom(drawError).AsAny(),
		reflect.TypeFor[error](): rapid.Map(rapid.Custom(drawError),
			func(e *rota.Error) any { return e.OrNil() }),
		reflect.TypeFor[rota.QueuePolicy](): rapid.Custom(drawPolicy).AsAny(),
		reflect.TypeFor[time.Duration]():    rapid.Map(rapid.Int64(), func(v int64) any { return millis.Duration(v) }),
		reflect.TypeFor[time.Time]():        rapid.Map(rapid.Int64(), func(v int64) any { return rota.Date(v).Time() }),
		reflect.TypeFor[int]():              rapid.IntRange(0, limits.MaxPage).AsAny(),
	}}
}

func drawError(t *rapid.T) *rota.Error {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	return &rota.Error{
		Kind: rota.Kind(rapid.Uint8Range(uint8(rota.KindInvalid), uint8(rota.KindInternal)).Draw(t, "kind")),
		Op:   rapid.String().Draw(t, "op"), Subject: rapid.String().Draw(t, "subject"),
		Text:       rapid.String().Draw(t, "text"),
		RetryAfter: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "delay")) * time.Millisecond,
	}
}

func drawPolicy(t *rapid.T) rota.QueuePolicy {
	p, err := rota.PresetPolicy(rapid.SampledFrom(rota.Presets).Draw(t, "preset"))
	if err != nil {
		t.Fatal(err)
	}
	p.Ranking = rapid.SampledFrom([]rota.Ranking{rota.RankAging, rota.RankMarket, rota.RankAdaptive,
		rota.RankFIFO}).Draw(t, "ranking")
	p.LeaseMs = rapid.Int64Range(100, 1e6).Draw(t, "lease")
	p.RenewalsMax = rapid.Int64Range(-1, 10).Draw(t, "renewals")
	p.WFee = rapid.Int64Range(0, 1e6).Draw(t, "w_fee")
	p.FairShare, p.Paused = rapid.Bool().Draw(t, "fair"), rapid.Bool().Draw(t, "paused")
	return p
}

// sent encodes and decodes a message.
func sent[M proto.Message](t *rapid.T, m M) M {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return out.(M)
}

// roundTrip checks that Go value → wire → bytes → wire → Go value gives equal values.
func roundTrip[W any, M proto.Message](t *testing.T, to func(*W) M, from func(M) (W, error)) {
	t.Run(reflect.TypeFor[W]().Name(), func(t *testing.T) {
		t.Parallel()
		gen := rapid.MakeCustom[W](anyWords())
		rapid.Check(t, func(t *rapid.T) {
			want := gen.Draw(t, "words")
			got, err := from(sent(t, to(&want)))
			if err != nil {
				t.Fatalf("from wire: %v", err)
			}
			if path := differ(reflect.ValueOf(want), reflect.ValueOf(got), ""); path != "" {
				t.Fatalf("differs at %s:\n want %+v\n got  %+v", path, want, got)
			}
		})
	})
}

// sure turns a function that cannot fail into one that returns an error.
func sure[M, W any](f func(M) W) func(M) (W, error) {
	return func(m M) (W, error) { return f(m), nil }
}

// differ returns the path of the first difference; no list equals an empty one.
func differ(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return path + ".nil"
			}
			return ""
		}
		return differ(a.Elem(), b.Elem(), path)
	case reflect.Struct:
		for i := range a.NumField() {
			if !a.Type().Field(i).IsExported() {
				continue // Reasoning's worker is only in its JSON
			}
			if d := differ(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); d != "" {
				return d
			}
		}
		return ""
	case reflect.Slice:
		if a.Len() != b.Len() {
			return path + ".len"
		}
		for i := range a.Len() {
			if d := differ(a.Index(i), b.Index(i), path+"[]"); d != "" {
				return d
			}
		}
		return ""
	case reflect.Map:
		if a.Len() == 0 && b.Len() == 0 {
			return ""
		}
	}
	if !reflect.DeepEqual(a.Interface(), b.Interface()) {
		return path + "!"
	}
	return ""
}

// known restricts generated rights to existing ones.
func known(grants []rota.Grant) {
	for i := range grants {
		grants[i].Right %= rota.RightLast + 1
	}
}

func TestWords_losesNothing(t *testing.T) {
	t.Parallel()
	roundTrip(t, JobSpecToWire, sure(JobSpecFromWire))
	roundTrip(t, JobToWire, JobFromWire)
	roundTrip(t, AttemptToWire, AttemptFromWire)
	roundTrip(t, SubmittedToWire, submittedFromWire)
	roundTrip(t, JobOutcomeToWire, JobOutcomeFromWire)
	roundTrip(t, LeaseToWire, LeaseFromWire)
	roundTrip(t, AssignmentToWire, AssignmentFromWire)
	roundTrip(t, LeaseEndToWire, LeaseEndFromWire)
	roundTrip(t, LeaseAnswerToWire, LeaseAnswerFromWire)
	roundTrip(t, WorkerSpecToWire, sure(WorkerSpecFromWire))
	roundTrip(t, WorkerToWire, WorkerFromWire)
	roundTrip(t, QueueToWire, QueueFromWire)
	roundTrip(t, TenantToWire, TenantFromWire)
	roundTrip(t, ModeToWire, ModeFromWire)
	roundTrip(t, func(i *rota.Identity) *rotav1.Identity {
		known(i.Grants)
		return IdentityToWire(i)
	}, IdentityFromWire)
	roundTrip(t, func(r *rota.Role) *rotav1.Role {
		known(r.Grants)
		return RoleToWire(r)
	}, RoleFromWire)
	roundTrip(t, func(r *rota.Role) *rotav1.SetRoleRequest {
		known(r.Grants)
		r.BuiltIn, r.By, r.At, r.ETag = false, "", rota.Moment{}, ""
		return NewRoleToWire(r)
	}, NewRoleFromWire)
	roundTrip(t, AccessTokenToWire, AccessTokenFromWire)
	roundTrip(t, BlockToWire, BlockFromWire)
	roundTrip(t, ProofReportToWire, ProofReportFromWire)
	roundTrip(t, AttestationToWire, func(w *rotav1.Attestation) (rota.Attestation, error) {
		return *AttestationFromWire(w), nil
	})
	roundTrip(t, NodeStatusToWire, NodeStatusFromWire)
	roundTrip(t, ClusterStatusToWire, ClusterStatusFromWire)
	roundTrip(t, RaftPeerToWire, sure(RaftPeerFromWire))
	roundTrip(t, NodeVerdictToWire, NodeVerdictFromWire)
	roundTrip(t, VerdictToWire, VerdictFromWire)
	roundTrip(t, BeatToWire, sure(BeatFromWire))
	roundTrip(t, BeatAnswerToWire, sure(BeatAnswerFromWire))
	roundTrip(t, func(i *peer.Inspection) *rotav1.InspectResponse {
		i.DiskLevel %= 3 // of a node that sends more, the rest is ignored
		return InspectionToWire(i)
	}, InspectionFromWire)

	type page struct {
		Page rota.JobPage
		At   rota.ReadAt
	}
	roundTrip(t, func(p *page) *rotav1.ListJobsResponse { return JobPageToWire(&p.Page, p.At) },
		func(w *rotav1.ListJobsResponse) (p page, err error) {
			p.Page, p.At, err = JobPageFromWire(w)
			return p, err
		})
	type filter struct {
		Filter rota.JobFilter
		Read   peer.ReadOptions
	}
	roundTrip(t, func(f *filter) *rotav1.ListJobsRequest { return JobFilterToWire(&f.Filter, f.Read) },
		func(w *rotav1.ListJobsRequest) (f filter, err error) {
			f.Filter, f.Read, err = JobFilterFromWire(w)
			return f, err
		})
	type settings struct{ Set []rota.Setting }
	roundTrip(t, func(s *settings) *rotav1.SetQueueRequest {
		return &rotav1.SetQueueRequest{Set: SettingsToWire(s.Set)}
	}, sure(func(w *rotav1.SetQueueRequest) settings { return settings{SettingsFromWire(w.GetSet())} }))
	type refusal struct{ Err *rota.Error }
	roundTrip(t, func(r *refusal) *rotav1.LeaseAnswers {
		return &rotav1.LeaseAnswers{Refusal: RefusalToWire(r.Err)}
	}, sure(func(w *rotav1.LeaseAnswers) refusal { return refusal{RefusalFromWire(w.GetRefusal())} }))
}

func TestLeaseCommand_losesOnlyWhoItIs(t *testing.T) {
	t.Parallel()
	gen := rapid.MakeCustom[peer.LeaseCommand](anyWords())
	rapid.Check(t, func(t *rapid.T) {
		want := gen.Draw(t, "command")
		want.Worker, want.Session, want.Growth = "", 0, nil // its node reads the children
		got, err := LeaseCommandFromWire(sent(t, LeaseCommandToWire(&want)))
		if err != nil {
			t.Fatal(err)
		}
		if path := differ(reflect.ValueOf(want), reflect.ValueOf(got), ""); path != "" {
			t.Fatalf("differs at %s: want %+v, got %+v", path, want, got)
		}
	})
}

// The numbers of failures are the same on both sides; numbers outside the range are rejected by name.
func TestFailKind_hasTheSameNumbersOnTheWire(t *testing.T) {
	t.Parallel()
	for kind, name := range map[peer.FailKind]string{peer.FailRetry: "UNSPECIFIED", peer.FailRetryAfter: "RETRY_AFTER",
		peer.FailSnooze:  "SNOOZE",
		peer.FailNoRetry: "NO_RETRY", peer.FailCancel: "CANCEL", peer.FailTimedOut: "TIMED_OUT"} {
		if got := rotav1.FailKind(kind).String(); got != "FAIL_KIND_"+name {
			t.Errorf("kind %d is %s on the wire, %s here", kind, got, name)
		}
	}
	if n := len(rotav1.FailKind_name); n != int(peer.FailLast)+1 {
		t.Errorf("the wire knows %d kinds of failures, we %d", n, peer.FailLast+1)
	}
	for _, beyond := range []int32{-1, int32(peer.FailLast) + 1} {
		if _, err := failFromWire(beyond); rota.KindOf(err) != rota.KindInvalid ||
			!strings.Contains(err.Error(), "failure kind") {
			t.Errorf("%d: %v", beyond, err)
		}
	}
}

func TestLeaseVerb_hasTheSameNumbersOnTheWire(t *testing.T) {
	t.Parallel()
	for v := rota.VerbAck; v <= rota.VerbProgress; v++ {
		if name := rotav1.LeaseVerb(v).String(); name != "LEASE_VERB_"+v.String() {
			t.Errorf("verb %d is %s here and %s on the wire", v, v, name)
		}
	}
	if n := len(rotav1.LeaseVerb_name); n != int(rota.VerbProgress)+1 {
		t.Errorf("the wire knows %d verbs, we %d", n-1, rota.VerbProgress)
	}
}

func TestNotices_keepWhatTheyTell(t *testing.T) {
	t.Parallel()
	a, e, r := &rota.Assignment{LeaseFor: 7 * time.Millisecond}, &peer.LeaseEnd{Job: "e"}, &peer.LeaseEnd{Job: "r",
		Reason: rota.ReasonPreempted}
	got, err := NoticesFromWire(NoticesToWire([]peer.Notice{{Draining: true}, {Ended: e}, {Revoked: r},
		{Assigned: a}}))
	if err != nil {
		t.Fatal(err)
	}
	a.Spec.Priority = 0
	want := []peer.Notice{{Assigned: a}, {Revoked: r}, {Ended: e}, {Draining: true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestJobSpecFromWire_takesTheDefaultPriority(t *testing.T) {
	t.Parallel()
	zero := int32(0)
	for name, c := range map[string]struct {
		wire *rotav1.JobSpec
		want int32
	}{
		"none":  {nil, rota.DefaultPriority},
		"unset": {&rotav1.JobSpec{}, rota.DefaultPriority},
		"zero":  {&rotav1.JobSpec{Priority: &zero}, 0},
	} {
		if got := JobSpecFromWire(c.wire).Priority; got != c.want {
			t.Errorf("%s: priority is %d, want %d", name, got, c.want)
		}
	}
}

func TestFromWire_refusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	errOf := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"job state":     errOf(JobFromWire(&rotav1.Job{State: "RUNING"})),
		"reason":        errOf(JobFromWire(&rotav1.Job{Reason: "?"})),
		"lease state":   errOf(LeaseFromWire(&rotav1.Lease{State: "OPEN"})),
		"lease id":      errOf(LeaseFromWire(&rotav1.Lease{Id: []byte{1}})),
		"token":         errOf(LeaseFromWire(&rotav1.Lease{Token: "1-2"})),
		"reasoning":     errOf(LeaseFromWire(&rotav1.Lease{Reasoning: "Luck"})),
		"no lease":      errOf(AssignmentFromWire(&rotav1.Assignment{})),
		"worker status": errOf(WorkerFromWire(&rotav1.Worker{Status: "IDLE"})),
		"mode":          errOf(ClusterStatusFromWire(&rotav1.StatusResponse{Mode: "SLOW"})),
		"digest":        errOf(NodeVerdictFromWire(&rotav1.NodeVerdict{Digest: "12"})),
		"new mode":      errOf(ModeFromWire(&rotav1.Mode{Mode: "SLEEPING"})),
		"service tier":  errOf(TenantFromWire(&rotav1.Tenant{Tier: "GOLD"})),
		"decision":      errOf(AttemptFromWire(&rotav1.Attempt{Decision: &rotav1.Decision{Reasoning: "Luck"}})),
		"proof's lease": errOf(ProofReportFromWire(&rotav1.ReportProofRequest{LeaseId: []byte{1}})),
		"policy key":    errOf(QueueFromWire(&rotav1.Queue{Policy: []*rotav1.Setting{{Key: "speed", Value: "9"}}})),
		"verb":          errOf(LeaseCommandFromWire(&rotav1.LeaseCommand{Verb: 99})),
		"no command":    errOf(LeaseCommandFromWire(nil)),
	} {
		if rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%s: got %v, want kind Invalid", name, err)
		}
	}
	if e := RefusalFromWire(&rotav1.Refusal{Kind: "HAUNTED", Text: "boo"}); e.Kind != rota.KindInternal {
		t.Errorf("unknown kind: got %v", e.Kind)
	}
}

// A handler's error may contain any bytes; one such error must not make a whole answer unsendable.
func TestToWire_mendsBrokenText(t *testing.T) {
	t.Parallel()
	bad := "a\xffb"
	rapid.Check(t, func(t *rapid.T) {
		sent(t, LeaseCommandToWire(&peer.LeaseCommand{Verb: rota.VerbFail, Text: bad}))
		sent(t, JobToWire(&rota.Job{Error: bad, ProgressNote: bad, Attempts: []rota.Attempt{{Error: bad}}}))
		sent(t, RefusalToWire(&rota.Error{Kind: rota.KindInternal, Text: bad, Op: bad, Subject: bad}))
		sent(t, NodeStatusToWire(&rota.NodeStatus{Problems: []string{"fine", bad}}))
		sent(t, NodeVerdictToWire(&rota.NodeVerdict{Violations: []string{bad}, Error: bad}))
	})
}

// TestKeys_roundTrip checks that a rule's breaker, and the stops of a key, come back from the wire.
func TestKeys_roundTrip(t *testing.T) {
	t.Parallel()
	r := rota.KeyRule{Name: "host", RefuseFull: true, Breaker: rota.KeyBreaker{Trip: 2, Of: 3, OpenMs: 4, Probes: 5,
		Reasons: rota.Failures}}
	if got, err := KeyRuleFromWire(KeyRuleToWire(&r)); err != nil || got != r {
		t.Errorf("got %+v, %v", got, err)
	}
	m := rota.Moment{Clock: 1, Date: 2}
	k := rota.KeyState{Key: "host:1", Pause: &rota.KeyPause{Since: m, Until: m, By: "b", Worker: "w", Reason: "r"},
		Breaker: &rota.KeyBreakerState{State: rota.BreakerProbing, Failures: 1, Until: m, Probing: 2, Opened: 3,
			Latest: []rota.KeyFailure{{Job: "j", Reason: rota.ReasonTimedOut}}}}
	if got, err := KeyStateFromWire(KeyStateToWire(&k)); err != nil || !reflect.DeepEqual(got, k) {
		t.Errorf("got %+v, %v", got, err)
	}
	w := KeyRuleToWire(&r)
	w.Breaker.Reasons = []string{"NO_SUCH"}
	if _, err := KeyRuleFromWire(w); rota.KindOf(err) != rota.KindInvalid {
		t.Errorf("an unknown reason: %v", err)
	}
}

// TestBudgets_roundTrip checks that budgets and their accounts come back from the wire.
func TestBudgets_roundTrip(t *testing.T) {
	t.Parallel()
	b := rota.BudgetState{Budget: rota.Budget{Name: "b", Tenant: "t", Queue: "q", Key: "k:1", Each: rota.EachJob,
		Unit: "u", Limit: 1, DefaultCost: 2, Every: rota.EveryWeek, TZ: "UTC", WarnPermille: 3, Then: rota.ThenAsk,
		Stop: true, ETag: "e"}, Since: 4, Until: 5, Accounts: 6, Spent: 7, Reserved: 8, Granted: 9, Held: 10}
	if got, err := BudgetStateFromWire(BudgetStateToWire(&b)); err != nil || got != b {
		t.Errorf("got %+v, %v", got, err)
	}
	a := rota.BudgetAccount{Budget: "b", Of: "o", Limit: 1, Spent: 2, Reserved: 3, Left: 4, Granted: 5, Waiting: 6,
		Held: 7, Warned: true, Full: true, Asks: true, Empty: 8,
		Changes: []rota.BudgetChange{{ID: "i", Amount: 9, Reason: "r", By: "p", At: 10}}}
	if got, err := BudgetAccountFromWire(BudgetAccountToWire(&a)); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, w := range []*rotav1.Budget{{Each: "x"}, {Every: "x"}, {Then: "x"}} {
		if _, err := BudgetFromWire(w); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%v: %v", w, err)
		}
	}
}
