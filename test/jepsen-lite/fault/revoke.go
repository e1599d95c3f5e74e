package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

const (
	// maxRevoke bounds one try to make a token or to revoke it.
	maxRevoke = 15 * time.Second
	// maxSteal bounds the call to one node with a revoked token.
	maxSteal = 2 * time.Second
)

// revokeToken replaces the token of a user and revokes the previous one. In one case of three the user has no valid
// token in between.
func revokeToken(ctx context.Context, w *World, r *rand.Rand) blow {
	revokedFirst, thief := r.IntN(3) == 0, r.Uint32()
	b := w.Cluster.lock.draw(r)
	if b == nil {
		return blow{}
	}
	t := &turnover{w: w, badge: b, thief: thief}
	t.old, _ = b.token()
	first, then, note := t.replace, t.revoke, "replaced, then revoked"
	if revokedFirst {
		first, then, note = t.revoke, t.replace, "revoked, then replaced"
	}
	if err := first(ctx); err != nil {
		note += "; the first failed: " + check.Short(err.Error())
	}
	return blow{targets: []string{b.Holder}, note: note, mend: func() error {
		defer b.release()
		err := then(context.Background())
		if b.revoked() { // whichever step failed, its user is not left without a token
			err = errors.Join(err, t.replace(context.Background()))
		}
		w.Rec.With(func(h *check.History) {
			t.done.End = w.Rec.Now()
			h.Revocations = append(h.Revocations, t.done)
		})
		return err
	}}
}

// turnover is one token that is replaced by another.
type turnover struct {
	w     *World
	badge *Badge
	old   string
	thief uint32
	done  check.Revocation
}

func (t *turnover) replace(ctx context.Context) error {
	t.begin()
	ctx, cancel := context.WithTimeout(ctx, maxRevoke)
	defer cancel()
	return t.w.Cluster.replaceToken(ctx, t.badge)
}

func (t *turnover) begin() {
	if t.done.Begin == 0 {
		t.done = check.Revocation{Token: tokenID(t.old), Holder: t.badge.Holder, Begin: t.w.Rec.Now()}
	}
}

// revoke ends the old token, unless a replacement is required and missing, and then continues with it as a thief would.
func (t *turnover) revoke(ctx context.Context) error {
	t.begin()
	id := tokenID(t.old)
	t.badge.expire(id)
	t.done.Asked = t.w.Rec.Now()
	c, err := t.w.Cluster.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	try, cancel := context.WithTimeout(ctx, maxRevoke)
	defer cancel()
	if err := c.Auth().RevokeToken(try, id); err != nil {
		return err
	}
	t.done.Acknowledged = t.w.Rec.Now()
	t.w.Rec.Revoked(id, t.done.Acknowledged)
	return t.steal(ctx)
}

// steal calls every node with the old token.
func (t *turnover) steal(ctx context.Context) (all error) {
	for _, s := range t.w.Cluster.Members() {
		if !s.awake() {
			continue
		}
		options := append(t.w.Cluster.options(nil), client.WithToken(t.old))
		c, err := client.Dial([]string{s.API}, options...)
		if err != nil {
			return err
		}
		spec := rota.NewJobSpec("quick-0", []byte("{}"))
		spec.ID, spec.Queue = rota.JobID(fmt.Sprintf("c%d-stolen-%08x-%s", t.w.Options.Seed, t.thief, s.ID)), "quick"
		op := check.Op{Process: "thief", Func: check.OpSubmit, Job: string(spec.ID), Node: s.ID, Shown: tokenID(t.old),
			Invoke: t.w.Rec.Now()}
		try, cancel := context.WithTimeout(ctx, maxSteal)
		outcomes, err := client.EachOutcome(c.Submit(try, spec))
		cancel()
		if err == nil { // a node may learn of the revocation only when it applies the entry
			err = outcomes[0].Err
		}
		all = errors.Join(all, c.Close())
		t.w.Rec.Add(op.Done(t.w.Rec, err).Doubted(t.w.Rec))
	}
	return all
}

// draw returns a loose badge that no nemesis is using, nil if there is none.
func (l *lock) draw(r *rand.Rand) *Badge {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.badges) == 0 {
		return nil
	}
	b := l.badges[r.IntN(len(l.badges))]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy {
		return nil
	}
	b.busy = true
	return b
}

func (b *Badge) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
}

// expire records that a token which the badge may still show is about to be revoked.
func (b *Badge) expire(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stale = b.stale || tokenID(b.text) == id
}

func (b *Badge) revoked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stale
}

// mendBadges replaces the tokens of users that have no valid one.
func (k *Cluster) mendBadges() (all error) {
	if k.lock == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxRevoke)
	defer cancel()
	for _, b := range k.lock.badges {
		if b.revoked() {
			all = errors.Join(all, k.replaceToken(ctx, b))
		}
	}
	return all
}
