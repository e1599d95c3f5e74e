package fsm

import (
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// inVersion adds the condition that the object of an operation has a certain version.
func inVersion(etag string, op *fsmpb.Op) *fsmpb.Op {
	op.IfMatch = etag
	return op
}

// versions returns three functions for each kind of object with an etag: set it to a value, delete it (nil if that is
// impossible), and read its current etag.
func (b *bench) versions() map[string]struct {
	set    func(value string) *fsmpb.Op
	remove func() *fsmpb.Op
	etag   func() string
} {
	rule := func() (r rota.KeyRule) {
		for _, r = range KeyRules(&b.View) {
			return r
		}
		return r
	}
	return map[string]struct {
		set    func(value string) *fsmpb.Op
		remove func() *fsmpb.Op
		etag   func() string
	}{
		"queue": {func(v string) *fsmpb.Op { return queueOp("side", "weight", v) },
			func() *fsmpb.Op { return deleteQueueOp("side") },
			func() string { q, _ := b.Queue("side"); return q.ETag }},
		"tenant": {func(v string) *fsmpb.Op { return tenantOp("ann", "weight", v) },
			func() *fsmpb.Op { return deleteTenantOp("ann") },
			func() string { return b.Tenant("ann").ETag }},
		"key rule": {func(v string) *fsmpb.Op {
			return SetKeyRuleOp(&rota.KeyRule{Name: "k", Concurrency: int64(v[0])})
		},
			func() *fsmpb.Op { return DeleteKeyRuleOp("", "k", "") }, func() string { return rule().ETag }},
		"schedule": {func(v string) *fsmpb.Op {
			return scheduleOp("s", func(s *rota.ScheduleSpec) { s.Job.Type = rota.JobType("t" + v) })
		}, func() *fsmpb.Op { return unscheduleOp("s") },
			func() string { s, _ := ScheduleOf(&b.View, "s"); return s.ETag }},
		"webhook": {func(v string) *fsmpb.Op { return hookOp("h", func(s *rota.WebhookSpec) { s.URL += v }) },
			func() *fsmpb.Op { return unhookOp("h") },
			func() string { w, _ := WebhookOf(&b.View, "h"); return w.ETag }},
		"role": {func(v string) *fsmpb.Op {
			return roleOp("r", rota.Grant{Right: rota.RightRead, Tenant: "t" + v, Queue: "*"})
		},
			func() *fsmpb.Op { return &fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: "r"}}} },
			func() string { r, _ := b.View.Access().Role("r"); return r.ETag }},
		"issuer": {func(v string) *fsmpb.Op { return issuerOp(idp+"/v", mapTo("sub", "ann"+v, access.RoleReader)) },
			func() *fsmpb.Op { return noIssuerOp(idp + "/v") },
			func() string { i, _ := b.View.Access().Issuer(idp + "/v"); return i.ETag }},
		"cluster": {func(v string) *fsmpb.Op { return clusterOp("state_bytes_max", v+"GiB") }, nil,
			func() string { return b.ClusterSettings().ETag }},
	}
}

// TestIfMatch checks that one of two changes to the same version applies, and the other is refused with the current
// version. Repeating a change is not a conflict.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	for name := range newClockwork(t).versions() {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			b := newClockwork(t)
			of := b.versions()[name]
			if of.remove != nil && name != "tenant" { // a tenant has default limits before it is set
				if text := b.refuses(rota.KindConflict, "version",
					inVersion(access.AnyVersion, of.set("2"))).GetText(); !strings.Contains(text, "does not exist") {
					t.Errorf("the version of a missing object: %s", text)
				}
			}
			b.ok(of.set("2"))
			first := of.etag()
			if err := access.CheckVersion(first); err != nil {
				t.Fatalf("its version is %q: %v", first, err)
			}
			if o := b.entry(inVersion(first, of.set("3")), inVersion(first,
				of.set("4"))).Outcomes; o[0].GetKind() != 0 ||
				o[1].GetKind() != uint32(rota.KindConflict) || o[1].GetSubject() != "version" ||
				!strings.Contains(o[1].GetText(), of.etag()) {
				t.Fatalf("two readers of %s get %v, its version is %s", first, o, of.etag())
			}
			if faults := b.restored().Check(); len(faults) > 0 {
				t.Fatalf("restored: %q", faults)
			}
			second := of.etag()
			if second == first {
				t.Fatalf("it changed, but still has version %s", first)
			}
			b.ok(inVersion(first, of.set("3"))) // the winner lost its answer and repeats the change
			b.ok(inVersion(access.AnyVersion, of.set("5")))
			if b.refuses(rota.KindConflict, "version", inVersion(second, of.set("6"))); of.etag() == second {
				t.Error("* changed nothing")
			}
			b.refuses(rota.KindInvalid, "if_match", inVersion("A b", of.set("6")))
			if of.remove == nil {
				return
			}
			b.refuses(rota.KindConflict, "version", inVersion(second, of.remove()))
			b.ok(inVersion(of.etag(), of.remove()))
			if name == "role" || name == "issuer" {
				b.refuses(rota.KindNotFound, name, inVersion(second, of.remove()))
				return
			}
			b.ok(inVersion(second, of.remove())) // it is deleted already
			if name == "schedule" || name == "webhook" {
				b.now++
				b.tick(1)
				b.ok(of.set("2"))
				if of.etag() == first {
					t.Errorf("a deleted %s that was set again has its old version", name)
				}
			}
		})
	}
}

// TestIfMatch_pause checks that pausing a schedule accepts a condition and changes the version.
func TestIfMatch_pause(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(scheduleOp("s"))
	first := b.schedule("s").ETag
	b.ok(inVersion(first, pauseOp("s", true, false)))
	b.ok(inVersion(first, pauseOp("s", true, false)))
	b.refuses(rota.KindConflict, "version", inVersion(first, pauseOp("s", false, false)))
	b.ok(inVersion(b.schedule("s").ETag, pauseOp("s", false, false)))
}

// TestIfMatch_elsewhere checks that a condition is refused on an operation that does not compare versions.
func TestIfMatch_elsewhere(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.refuses(rota.KindInvalid, "if_match", inVersion("1", submitOp(jobSpec("j"))))
	if b.JobTable.Len() != 0 {
		t.Error("the job was submitted despite the refusal")
	}
}

// TestPreview checks that a dry run returns the result of the same call, or its refusal, and does not change the state.
func TestPreview(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op   *fsmpb.Op
		want string
	}{
		"queue": {queueOp("side", "weight", "3", "expected.b", "0", "expected.c", "1s"),
			"weight 2 3;expected.b 2000 ;expected.c  1000;"}, "same queue": {queueOp("side", "weight", "2"), ""},
		"new queue":    {queueOp("new", "weight", "3"), "preset  standard;weight 1 3;"},
		"tenant":       {tenantOp("ann", "weight", "3", "tier", "PRO"), "tier FREE PRO;weight 2 3;"},
		"same tenant":  {tenantOp("ann", "weight", "2"), ""},
		"new tenant":   {tenantOp("bob"), "known false true;"},
		"cluster":      {clusterOp("autopilot", "off"), "autopilot true false;"},
		"same":         {clusterOp("autopilot", "on"), ""},
		"bad":          {queueOp("side", "weight", "0"), "INVALID weight"},
		"late":         {inVersion("0123456789abcdef", queueOp("side", "weight", "3")), "CONFLICT version"},
		"late tenant":  {inVersion("0123456789abcdef", tenantOp("ann", "weight", "3")), "CONFLICT version"},
		"late cluster": {inVersion("0123456789abcdef", clusterOp("autopilot", "off")), "CONFLICT version"},
		"late, same":   {inVersion("0123456789abcdef", tenantOp("ann", "weight", "2")), ""},
	} {
		b := newClockwork(t)
		b.ok(queueOp("side", "weight", "2", "expected.a", "1s", "expected.b", "2s"))
		b.ok(tenantOp("ann", "weight", "2"))
		before := b.rowsDigest()
		changes, etag, err := previewed(b, c.op)
		got := ""
		for _, x := range changes {
			got += x.Key + " " + x.From + " " + x.To + ";"
		}
		if err != nil {
			got = rota.KindOf(err).String() + " " + rota.ErrorOf(err).Subject
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %q", name, got, c.want)
		}
		if b.rowsDigest() != before {
			t.Fatalf("%s: a dry run changed the state", name)
		}
		o := b.entry(c.op).Outcomes[0]
		if refused := o.GetKind() != 0; refused != (err != nil) || refused && (o.GetText() != rota.ErrorOf(err).Text) {
			t.Errorf("%s: the dry run returns %v, the call %v", name, err, o)
		}
		if again, now, err := previewed(b, inVersion("", c.op)); o.GetKind() == 0 &&
			(err != nil || len(again) > 0 || now != etag) {
			t.Errorf("%s: it is done, and would change %v of %s to be %s, %v", name, again, etag, now, err)
		}
	}
}

func previewed(b *bench, op *fsmpb.Op) ([]rota.SettingChange, string, error) {
	switch {
	case op.GetSetQueue() != nil:
		q, err := PreviewQueue(&b.View, op)
		return q.Changes, q.ETag, err
	case op.GetSetTenant() != nil:
		t, err := PreviewTenant(&b.View, op)
		return t.Changes, t.ETag, err
	default:
		s, err := PreviewCluster(&b.View, op)
		return s.Changes, s.ETag, err
	}
}
