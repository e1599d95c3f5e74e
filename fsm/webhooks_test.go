package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/sched"
)

// hookOp sets a webhook.
func hookOp(name string, change ...func(*rota.WebhookSpec)) *fsmpb.Op {
	s := rota.WebhookSpec{Name: rota.WebhookName(name), URL: "https://example.com/in"}
	for _, c := range change {
		c(&s)
	}
	return entry.WebhookOp(&s)
}

func pauseHookOp(name string, paused bool) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_PauseWebhook{PauseWebhook: &fsmpb.PauseWebhook{Name: name, Paused: paused,
		Reason: "a test"}}}
}

func skipHookOp(name string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SkipWebhook{SkipWebhook: &fsmpb.SkipWebhook{Name: name}}}
}

func unhookOp(name string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteWebhook{DeleteWebhook: &fsmpb.DeleteWebhook{Name: name}}}
}

// advanceOp decides the events after a hook's cursor and up to one; some of them become deliveries.
func (b *bench) advanceOp(name string, to rota.EventID, events ...rota.EventID) *fsmpb.Op {
	w, _ := WebhookOf(&b.View, rota.WebhookName(name))
	op := &fsmpb.AdvanceHook{Name: name, Version: w.Version, From: entry.EventOp(w.Cursor), To: entry.EventOp(to)}
	for _, e := range events {
		op.Deliveries = append(op.Deliveries, &fsmpb.HookDelivery{Event: entry.EventOp(e),
			Kind: uint32(rota.EventJobEnqueued), Payload: []byte("{}")})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_AdvanceHook{AdvanceHook: op}}
}

func (b *bench) hook(name string) rota.Webhook {
	b.t.Helper()
	w, ok := WebhookOf(&b.View, rota.WebhookName(name))
	if !ok {
		b.t.Fatalf("webhook %s is not known", name)
	}
	return w
}

// enqueued submits a job, and returns the id of its event.
func (b *bench) enqueued(id string) rota.EventID {
	b.t.Helper()
	for _, e := range b.entry(submitOp(jobSpec(id))).Events {
		if e.Kind == rota.EventJobEnqueued {
			return e.ID
		}
	}
	b.t.Fatalf("job %s is not enqueued", id)
	return rota.EventID{}
}

// TestWebhook checks that events become deliveries once, whichever caller repeats it; ended ones are counted, and one
// that failed for good disables the hook in that entry.
func TestWebhook(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(hookOp("h"))
	b.existed(hookOp("h"))
	e1, e2 := b.enqueued("j1"), b.enqueued("j2")
	again := b.advanceOp("h", e2, e1, e2)
	b.ok(again)
	b.refuses(rota.KindStale, "from", again)
	if w := b.hook("h"); w.Pending != 2 || w.Cursor != e2 || w.State != rota.WebhookActive {
		t.Fatalf("%+v", w)
	}
	id := string(rota.DeliveryID("h", e1))
	job := b.state(id, rota.JobQueued)
	if job.Queue != rota.WebhookQueue || job.Tenant != rota.WebhookTenant || job.Type != rota.WebhookType ||
		string(job.Payload) != "{}" {
		t.Errorf("%+v", job)
	}
	b.restored()
	b.worker("w", 2, func(s *rota.WorkerSpec) { s.Queues = []rota.QueueName{rota.WebhookQueue} })
	leases := b.match()
	b.ok(verb(rota.VerbComplete, leases[rota.JobID(id)]))
	b.ok(verb(rota.VerbAck, leases[rota.DeliveryID("h", e2)]))
	b.ok(failOp(leases[rota.DeliveryID("h", e2)], "the receiver answered 410"))
	w := b.hook("h")
	if w.Pending != 0 || w.Delivered != 1 || w.Failed != 1 || w.State != rota.WebhookDisabled ||
		!strings.Contains(w.Why, "answered 410") {
		t.Fatalf("%+v", w)
	}
	b.refuses(rota.KindStale, "from", b.advanceOp("h", b.enqueued("j3")))
	b.ok(retryOp(string(rota.DeliveryID("h", e2))))
	if w := b.hook("h"); w.Pending != 1 {
		t.Errorf("%+v", w)
	}
	b.ok(pauseHookOp("h", false))
	b.existed(pauseHookOp("h", false))
	e4 := b.enqueued("j4")
	b.ok(b.advanceOp("h", e4, e4))
	if w := b.hook("h"); w.State != rota.WebhookActive || w.Why != "" || w.Pending != 2 {
		t.Fatalf("%+v", w)
	}
	b.ok(unhookOp("h"))
	b.existed(unhookOp("h"))
	b.ok(hookOp("h"))
	b.ok(cancelOp(string(rota.DeliveryID("h", e4))))
	if w := b.hook("h"); w.Pending != 0 || w.Delivered != 0 {
		t.Fatalf("a hook counts deliveries of an earlier one of its name: %+v", w)
	}
	b.restored()
}

// failOp fails an attempt for good.
func failOp(l rota.Lease, text string) *fsmpb.Op {
	op := verb(rota.VerbFail, l)
	op.GetLease().Text, op.GetLease().Fail = text, uint32(peer.FailNoRetry)
	return op
}

// TestWebhook_skip checks that waiting events are skipped, and later ones are not.
func TestWebhook_skip(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(hookOp("h"))
	e1 := b.enqueued("j1")
	stale := b.advanceOp("h", e1, e1)
	b.ok(skipHookOp("h"))
	b.refuses(rota.KindStale, "from", stale)
	e2 := b.enqueued("j2")
	b.refuses(rota.KindInvalid, "deliveries", b.advanceOp("h", e2, e1))
	b.ok(b.advanceOp("h", e2, e2))
}

// TestWebhook_gap checks that events that are no longer retained are named.
func TestWebhook_gap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(hookOp("h"))
	from := b.hook("h").Cursor
	e1, e2, e3 := b.enqueued("j1"), b.enqueued("j2"), b.enqueued("j3")
	bad := b.advanceOp("h", e3, e1, e3)
	bad.GetAdvanceHook().Gap = entry.EventOp(e2)
	b.refuses(rota.KindInvalid, "deliveries", bad)
	op := b.advanceOp("h", e3, e2, e3)
	op.GetAdvanceHook().Gap = entry.EventOp(e2)
	a := b.entry(op)
	if n := slices.IndexFunc(a.Events, func(e rota.Event) bool {
		return e.Kind == rota.EventWebhookChanged && strings.Contains(e.Payload, `"GAP"`)
	}); n < 0 {
		t.Errorf("no event reports the gap: %v", a.Events)
	}
	if w := b.hook("h"); w.Gaps != 1 || w.Gap == nil || *w.Gap != (rota.WebhookGap{After: from, Before: e2}) {
		t.Errorf("%+v", w)
	}
	b.restored()
}

// TestWebhook_pending checks that the cursor waits if too much is pending, or a delivery has no room.
func TestWebhook_pending(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 1 << 30
	b.ok(hookOp("h"))
	last := rota.EventID{}
	for n := range limits.MaxPendingDeliveries/limits.MaxDeliveries + 1 {
		last = b.enqueued(fmt.Sprint("x", n))
		events := make([]rota.EventID, limits.MaxDeliveries)
		for i := range events { // seqs of no event: the machine cannot know
			events[i] = rota.EventID{Incarnation: last.Incarnation, Index: last.Index, Seq: uint32(i + 1)}
		}
		op := b.advanceOp("h", events[len(events)-1], events...)
		if n == limits.MaxPendingDeliveries/limits.MaxDeliveries {
			b.refuses(rota.KindExhausted, "deliveries", op)
			break
		}
		b.ok(op)
	}
	if w := b.hook("h"); w.Pending != limits.MaxPendingDeliveries {
		t.Fatalf("%d are pending", w.Pending)
	}
	b.ok(hookOp("other"))
	b.ok(queueOp(string(rota.WebhookQueue), "queue_cap", fmt.Sprint(limits.MaxPendingDeliveries+1)))
	e1, e2 := b.enqueued("y1"), b.enqueued("y2")
	b.ok(b.advanceOp("other", e2, e1, e2))
	if w := b.hook("other"); w.Cursor != e1 || w.Pending != 1 || !strings.Contains(w.Why, "queue_cap") {
		t.Errorf("%+v", w)
	}
	b.refuses(rota.KindConflict, "queue", deleteQueueOp(string(rota.WebhookQueue)))
	b.restored()
}

// TestWebhook_refused checks that an invalid webhook changes nothing.
func TestWebhook_refused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	url := func(u string) *fsmpb.Op { return hookOp("h", func(s *rota.WebhookSpec) { s.URL = u }) }
	for _, u := range []string{"", "file:///etc/passwd", "ftp://a/", "https://", "https://:80/",
		"https://user:pw@example.com/", "https://a b/", "https://a/#f",
		"https://a\\b/", "https://ä/", "https://" + strings.Repeat("a", rota.MaxWebhookURL), "javascript:alert(1)",
		"https://a%00b/", "HTTPS://a/"} {
		b.refuses(rota.KindInvalid, "url", url(u))
	}
	b.refuses(rota.KindInvalid, "filter", hookOp("h", func(s *rota.WebhookSpec) {
		s.Filter = strings.Repeat("x", rota.MaxWebhookFilter+1)
	}))
	b.refuses(rota.KindInvalid, "filter", hookOp("h", func(s *rota.WebhookSpec) { s.Filter = "age>1h" }))
	b.refuses(rota.KindInvalid, "filter", hookOp("h", func(s *rota.WebhookSpec) { s.Filter = "nonsense" }))
	b.refuses(rota.KindInvalid, "kinds", hookOp("h", func(s *rota.WebhookSpec) { s.Kinds = []rota.EventKind{200} }))
	b.refuses(rota.KindInvalid, "kinds", hookOp("h", func(s *rota.WebhookSpec) { s.Kinds = []rota.EventKind{1, 1} }))
	b.refuses(rota.KindInvalid, "kinds", hookOp("h", func(s *rota.WebhookSpec) {
		s.Kinds = make([]rota.EventKind, 1_000)
	}))
	b.refuses(rota.KindInvalid, "name", hookOp(strings.Repeat("h", rota.MaxWebhookName+1)))
	b.refuses(rota.KindInvalid, "name", hookOp("a@b"))
	b.refuses(rota.KindInvalid, "generation", hookOp("h", func(s *rota.WebhookSpec) { s.Generation = 7 }))
	b.refuses(rota.KindNotFound, "webhook", pauseHookOp("h", true))
	b.refuses(rota.KindNotFound, "webhook", skipHookOp("h"))
	b.refuses(rota.KindNotFound, "webhook", b.advanceOp("h", rota.EventID{Incarnation: 1, Index: 1}))
	b.ok(hookOp("h", func(s *rota.WebhookSpec) { s.Kinds = []rota.EventKind{rota.EventJobDead} }))
	e := b.enqueued("j")
	b.refuses(rota.KindInvalid, "deliveries", b.advanceOp("h", e, e)) // not of its kinds
	b.refuses(rota.KindInvalid, "to", b.advanceOp("h", rota.EventID{Incarnation: 1, Index: 1 << 40}))
	b.refuses(rota.KindInvalid, "to", b.advanceOp("h", rota.EventID{Incarnation: 1 << 40, Index: 1}))
	b.ok(hookOp("h", func(s *rota.WebhookSpec) { s.Generation = 2 }))
	b.refuses(rota.KindConflict, "generation", hookOp("h", func(s *rota.WebhookSpec) { s.Generation = 3 }))
	for i := range limits.MaxWebhooks - 1 {
		b.ok(hookOp(fmt.Sprint("h", i)))
	}
	b.refuses(rota.KindExhausted, "webhook", hookOp("more"))
}

// TestWebhook_rights checks that a hook receives the events that its owner may read, and is changed by callers that may
// read as much; the hook of a revoked credential sends nothing more.
func TestWebhook_rights(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wish := tokenWish("a", access.RoleSubmitter)
	wish.Tenants, wish.ExpiresMs = []string{"acme*"}, int64(b.Header.Date())+1e9
	b.ok(by(rota.Local, tokenOp(wish)))
	narrow := actorNamed("a")
	b.ok(by(narrow, hookOp("mine")))
	if got := fmt.Sprint(b.hook("mine").Sees); got != "[read tenant=acme* queue=*]" {
		t.Errorf("a narrowed principal's hook sees %s", got)
	}
	b.ok(hookOp("all"))
	if got := fmt.Sprint(b.hook("all").Sees); got != "[read tenant=* queue=* audit]" {
		t.Errorf("root's hook sees %s", got)
	}
	b.refuses(rota.KindConflict, "name", by(narrow, hookOp("all",
		func(s *rota.WebhookSpec) { s.URL = "https://evil.example/" })))
	for _, op := range []*fsmpb.Op{pauseHookOp("all", true), skipHookOp("all"), unhookOp("all")} {
		b.refuses(rota.KindNotFound, "webhook", by(narrow, op))
	}
	b.ok(revokeOp("a"))
	if w := b.hook("mine"); w.State != rota.WebhookDisabled || !strings.Contains(w.Why, "revoked") {
		t.Errorf("%+v", w)
	}
	m := b.restored()
	if err := m.Reincarnate(Rebirth{Cluster: "another"}); err != nil {
		t.Fatal(err)
	}
	if w, _ := WebhookOf(&m.View, "all"); w.State != rota.WebhookDisabled {
		t.Errorf("a hook of a restored cluster is %s", w.State)
	}
}

// TestWebhook_days checks that a delivery is tried for three days.
func TestWebhook_days(t *testing.T) {
	t.Parallel()
	p := rota.StandardPolicy()
	r := rota.RetryPolicy{Attempts: limits.DeliveryAttempts, Base: limits.DeliveryBase, Cap: limits.DeliveryCap,
		FactorPermille: 2_000, JitterPermille: 100}
	var sum int64
	for n := range int32(limits.DeliveryAttempts - 1) {
		sum += sched.BackoffMs("h@1.2.3", n, r.Over(&p))
	}
	const day = 24 * 3_600_000
	if sum < 3*day-day/8 || sum > 3*day+day/8 {
		t.Errorf("the last try comes %d h after the first", sum/3_600_000)
	}
}

// TestWebhookModel compares random lives of hooks with a list of the events that each had to deliver: each event once,
// whichever leader's operation comes late.
func TestWebhookModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 54))
		b := newBench(t)
		b.every = 11
		b.ok(hookOp("h"))
		var events []rota.EventID
		var late []*fsmpb.Op
		want := map[rota.JobID]bool{}
		at := 0
		for n := range 120 {
			switch r.IntN(6) {
			case 0, 1:
				events = append(events, b.enqueued(fmt.Sprint("j", n)))
			case 2, 3:
				if at == len(events) {
					break
				}
				to := at + 1 + r.IntN(len(events)-at)
				op := b.advanceOp("h", events[to-1], events[at:to]...)
				late = append(late, op)
				b.ok(op)
				for _, e := range events[at:to] {
					want[rota.DeliveryID("h", e)] = true
				}
				at = to
			case 4:
				if len(late) > 0 {
					b.refuses(rota.KindStale, "from", late[r.IntN(len(late))])
				}
			case 5:
				if r.IntN(4) == 0 {
					b.ok(skipHookOp("h"))
					at = len(events)
				}
			}
		}
		got := map[rota.JobID]bool{}
		b.JobTable.Scan(func(id rota.JobID, _ *state.JobRow) bool {
			if _, _, ok := rota.SplitDeliveryID(id); ok {
				got[id] = true
			}
			return true
		})
		if len(got) != len(want) || int(b.hook("h").Pending) != len(want) {
			t.Fatalf("seed %d: %d deliveries, %d are counted; the model has %d", seed, len(got), b.hook("h").Pending,
				len(want))
		}
		for id := range want {
			if !got[id] {
				t.Fatalf("seed %d: no delivery %s", seed, id)
			}
		}
		b.restored()
	}
}

// hostileHook does something with a webhook.
func hostileHook(b *bench, d *dice) *fsmpb.Op {
	name := d.id("h")
	switch d.roll(6) {
	case 0:
		return pauseHookOp(name, d.roll(2) == 0)
	case 1:
		return skipHookOp(name)
	case 2:
		return unhookOp(name)
	case 3, 4:
		to := rota.EventID{Incarnation: uint64(d.roll(3)), Index: b.Header.Index - rota.Index(d.roll(3)),
			Seq: uint32(d.roll(4))}
		op := b.advanceOp(name, to, to)
		if d.roll(3) == 0 {
			op.GetAdvanceHook().Gap = entry.EventOp(to)
		}
		op.GetAdvanceHook().Version += uint64(d.roll(8) / 7)
		return op
	}
	return hookOp(name, func(s *rota.WebhookSpec) {
		s.Generation = uint64(d.roll(3))
		if d.roll(4) == 0 {
			s.URL, s.Filter, s.Kinds = d.text(), d.text(), []rota.EventKind{rota.EventKind(d.roll(256))}
		}
	})
}

// goldenHooks sets, advances, pauses, skips and deletes webhooks.
func goldenHooks(c *bench) {
	c.entry(hookOp("gh1"), hookOp("gh2", func(s *rota.WebhookSpec) { s.Filter = "queue=default" }), hookOp("gh3"))
	e := c.entry(submitOp(jobSpec("hooked"))).Events[0].ID
	c.entry(c.advanceOp("gh1", e, e), c.advanceOp("gh2", e), c.advanceOp("gh1", e, e), skipHookOp("gh3"))
	c.entry(cancelOp(string(rota.DeliveryID("gh1", e))), pauseHookOp("gh2", true), unhookOp("gh3"), unhookOp("gh3"))
	c.entry(pauseHookOp("gh2", false))
}
