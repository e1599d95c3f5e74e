package cluster

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func signingKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// startAttesting starts three nodes that know the keys of seeds 1 and 2.
func startAttesting(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	for i := range 3 {
		id := rota.NodeID(fmt.Sprintf("n%d", i+1))
		b.plan(id, 3)
		c := b.addrs[id]
		c.AttestationKeys = func() (keys []ed25519.PublicKey) {
			for seed := byte(1); seed <= 2; seed++ {
				keys = append(keys, signingKey(seed).Public().(ed25519.PublicKey))
			}
			return keys
		}
		b.addrs[id] = c
	}
	b.startPlanned()
	return b
}

// An attestation is verified before the log, whichever node is asked: an invalid one registers nothing.
func TestOpenWorker_verifiesAttestationsBeforeTheLog(t *testing.T) {
	t.Parallel()
	b := startAttesting(t)
	b.loyal() // an election creates entries
	n := b.follower()
	s, err := n.Status(within(t, ample))
	if err != nil {
		t.Fatal(err)
	}
	cluster, date := s.ClusterID, s.Date
	attest := func(seed byte, cluster rota.ClusterID, worker rota.WorkerID, expires rota.Date) *rota.Attestation {
		a, err := rota.Attest(signingKey(seed), cluster, worker, expires, 70)
		if err != nil {
			t.Fatal(err)
		}
		return &a
	}
	later := date + 3_600_000
	broken := attest(1, cluster, "w1", later)
	broken.Expires++
	raised := attest(1, cluster, "w1", later)
	raised.Stake = 1 << 60
	short := attest(1, cluster, "w1", later)
	short.Signature = short.Signature[:63]
	open := func(id rota.WorkerID, a *rota.Attestation) error {
		s, err := n.OpenWorker(within(t, ample), rota.WorkerSpec{ID: id, Queues: []rota.QueueName{"default"}, Slots: 1},
			[]byte("a secret of sixteen"), false, a, peer.WorkerLink{})
		if err == nil {
			s.Close()
		}
		return err
	}
	before := b.atRest(n)
	for name, c := range map[string]struct {
		a    *rota.Attestation
		kind rota.Kind
		says string
	}{
		"expired":           {attest(1, cluster, "w1", date-1), rota.KindDenied, "expired"},
		"another worker":    {attest(1, cluster, "w2", later), rota.KindDenied, `"w2"`},
		"another cluster":   {attest(1, "c-other", "w1", later), rota.KindDenied, `"c-other"`},
		"an unknown key":    {attest(3, cluster, "w1", later), rota.KindDenied, "does not name"},
		"changed":           {broken, rota.KindDenied, "signature"},
		"another stake":     {raised, rota.KindDenied, "signature"},
		"a short signature": {short, rota.KindInvalid, "63 bytes"},
		"empty":             {&rota.Attestation{}, rota.KindInvalid, "key"},
	} {
		if err := open("w1", c.a); rota.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if after := n.raft.LastIndex(); after != before {
		t.Errorf("refused attestations made %d entries", after-before)
	}
	if _, _, err := n.Worker(within(t, ample), "w1", peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
		t.Errorf("a refused worker is registered: %v", err)
	}
	for id, a := range map[rota.WorkerID]*rota.Attestation{"w1": attest(1, cluster, "w1", later),
		"w2": attest(2, cluster, "w2", later), "w3": nil} {
		if err := open(id, a); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		w, _, err := n.Worker(within(t, ample), id, peer.ReadOptions{})
		want, stake := rota.Date(0), int64(0)
		if a != nil {
			want, stake = later, 70
		}
		if err != nil || w.AttestedUntil != want || w.AttestedStake != stake || w.Load != "Idle" || w.Health != 1000 {
			t.Errorf("%s: %+v, %v", id, w, err)
		}
	}
}

// Any node accepts operators' changes of modes, tenants and workers, and all nodes see them.
func TestNode_takesOperatorsWordsAnywhere(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f, l := b.follower(), b.leader()
	ctx := within(t, ample)

	tenant, err := f.SetTenant(ctx, "acme", []rota.Setting{{Key: "tier", Value: "PRO"},
		{Key: "max_concurrent", Value: "1"}})
	if err != nil || tenant.Tier != rota.TierPro || tenant.MaxConcurrent != 1 || !tenant.Known {
		t.Fatalf("%+v, %v", tenant, err)
	}
	if other, _, err := l.Tenant(ctx, "nobody", peer.ReadOptions{}); err != nil || other.Known ||
		other.TenantLimits != rota.DefaultTenantLimits() {
		t.Errorf("%+v, %v", other, err)
	}
	if all, _, err := l.Tenants(ctx, peer.ReadOptions{}); err != nil || len(all) != 1 || all[0].ID != "acme" {
		t.Errorf("%+v, %v", all, err)
	}

	mode, err := f.SetMode(ctx, rota.ModeReadOnly, "move")
	if err != nil || mode.Mode != rota.ModeReadOnly || mode.Reason != "move" || mode.Auto {
		t.Fatalf("%+v, %v", mode, err)
	}
	if s, err := l.Status(ctx); err != nil || s.Mode != rota.ModeReadOnly || s.ModeReason != "move" {
		t.Errorf("%+v, %v", s, err)
	}
	refused, err := f.Submit(ctx, specs("x", 2))
	if err != nil || rota.KindOf(refused[1].Err) != rota.KindMode {
		t.Errorf("%+v, %v", refused, err)
	}
	if got := gauges(t, f, "rota_admission_mode"); got["READ_ONLY"] != 1 || got["NORMAL"] != 0 || len(got) != 4 {
		t.Errorf("modes are %v", got)
	}
	if got := gauges(t, f, "rota_admission_rejected_total"); got["mode"] != 2 ||
		len(got) != len(meter.RejectedReasons) {
		t.Errorf("refusals are %v", got)
	}
	if _, err := l.SetMode(ctx, rota.ModeNormal, "done"); err != nil {
		t.Fatal(err)
	}

	h := newHand(t, l, "w1", 5)
	submitAll(t, f, specs("x", 1))
	h.take(1)
	for _, step := range []struct {
		do   func(rota.WorkerID) (rota.Worker, error)
		want rota.WorkerStatus
		open int32
	}{
		{func(id rota.WorkerID) (rota.Worker, error) { return f.DrainWorker(ctx, id) }, rota.WorkerDraining, 1},
		{func(id rota.WorkerID) (rota.Worker, error) { return f.SuspendWorker(ctx, id) }, rota.WorkerSuspended, 0},
		{func(id rota.WorkerID) (rota.Worker, error) { return f.ResumeWorker(ctx, id) }, rota.WorkerActive, -1},
		{func(id rota.WorkerID) (rota.Worker, error) { return f.RetireWorker(ctx, id) }, rota.WorkerRetired, 0},
	} {
		w, err := step.do("w1")
		if err != nil || w.Status != step.want || step.open >= 0 && w.Open != step.open {
			t.Errorf("want %s, got %+v, %v", step.want, w, err)
		}
	}
	if _, err := f.SuspendWorker(ctx, "nobody"); rota.KindOf(err) != rota.KindNotFound {
		t.Errorf("an unknown worker: %v", err)
	}
}

// A malformed value is rejected by name before the log.
func TestNode_refusesMisshapenOperatorsWordsBeforeTheLog(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n, ctx := b.leader(), within(t, ample)
	errOf := func(_ any, err error) error { return err }
	before := b.atRest(n)
	for name, err := range map[string]error{
		"mode":          errOf(n.SetMode(ctx, rota.ModeDraining+1, "x")),
		"no reason":     errOf(n.SetMode(ctx, rota.ModeNormal, "")),
		"long reason":   errOf(n.SetMode(ctx, rota.ModeNormal, strings.Repeat("x", limits.MaxReasonBytes+1))),
		"tenant key":    errOf(n.SetTenant(ctx, "t", []rota.Setting{{Key: "colour", Value: "red"}})),
		"tenant value":  errOf(n.SetTenant(ctx, "t", []rota.Setting{{Key: "weight", Value: "NaN"}})),
		"tenant id":     errOf(n.SetTenant(ctx, "a b", []rota.Setting{{Key: "weight", Value: "1"}})),
		"worker id":     errOf(n.SuspendWorker(ctx, "")),
		"proof, no why": errOf(n.ReportProof(ctx, rota.ProofReport{Job: "j"})),
		"proof, no job": errOf(n.ReportProof(ctx, rota.ProofReport{Reason: "x"})),
	} {
		if rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if after := n.raft.LastIndex(); after != before {
		t.Errorf("refusals made %d entries", after-before)
	}
}

// atRest waits until a node's log has not grown for a while, and returns its last index: starting nodes record each
// other, which they check every second.
func (b *bench) atRest(n *Node) uint64 {
	b.t.Helper()
	last, since := n.raft.LastIndex(), time.Now()
	b.eventually("the log is at rest", func() bool {
		if now := n.raft.LastIndex(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 2500*time.Millisecond
	})
	return last
}

// gauges returns a metric's series by its one label, "" if it has none; for a histogram the number of observations.
func gauges(t *testing.T, n *Node, name string) map[string]float64 {
	t.Helper()
	return seriesOf(n.Collectors(), name)
}

// seriesOf is gauges for the collectors of a part.
func seriesOf(collectors []prometheus.Collector, name string) map[string]float64 {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors...)
	families, err := r.Gather()
	if err != nil {
		panic(err) // one of our gauges returned an invalid value
	}
	got := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			label := ""
			if l := m.GetLabel(); len(l) > 0 {
				label = l[0].GetValue()
			}
			got[label] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}
