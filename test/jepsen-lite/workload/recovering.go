package workload

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// maxReturn bounds the wait for an earlier node to be refused.
const maxReturn = 30 * time.Second

// isRecovered kills all nodes under load, and lets one surviving disk continue as docs/operations/quorum-lost.md
// describes. In one case of two the disks of a majority can still be read.
func (a *aftermath) isRecovered(ctx context.Context) error {
	r := &check.Recovery{}
	a.facts.Recovery = r
	from := a.Rec.Now()
	dead, err := a.allDie(ctx, r)
	if err != nil {
		return err
	}
	most := len(dead)/2 + 1
	left := len(dead) - most
	if a.r.IntN(2) == 0 {
		left = most
	}
	a.r.Shuffle(len(dead), func(i, k int) { dead[i], dead[k] = dead[k], dead[i] })
	readable := slices.Clone(dead[:max(1, left)])
	for _, s := range readable {
		r.Left = append(r.Left, s.ID)
	}
	heir := a.choose(r, readable)
	r.Heir = heir.ID
	others := slices.DeleteFunc(slices.Clone(dead), func(s *fault.Server) bool { return s == heir })
	gone, old := others[len(others)-1], others[len(others)-2]
	if err := gone.Wipe(); err != nil {
		return err
	}
	recovering, cancel := context.WithTimeout(ctx, maxAct)
	defer cancel()
	if r.Now, err = a.Cluster.Recover(recovering, heir, readable); err != nil {
		return err
	}
	r.Served = a.Rec.Now()
	a.struck("quorum-lost", namesOf(dead), from, fmt.Sprintf("left were %v, %s was recovered", r.Left, r.Heir))
	a.crew.haunt(ctx, heir)
	for _, s := range []*fault.Server{old, gone} {
		returning, cancel := context.WithTimeout(ctx, maxReturn)
		said, err := s.ComeBack(returning)
		cancel()
		if err != nil {
			return err
		}
		r.Returned = append(r.Returned, check.Returned{Node: s.ID, Empty: s == gone, Said: check.Short(said)})
	}
	return a.growsAgain(ctx, r)
}

func namesOf(servers []*fault.Server) (names []string) {
	for _, s := range servers {
		names = append(names, s.ID)
	}
	return names
}

// allDie kills all nodes under load, one after the other or at once, and reports the contents of their disks. The disk
// of one of them is behind.
func (a *aftermath) allDie(ctx context.Context, r *check.Recovery) ([]*fault.Server, error) {
	settled, err := a.steady(ctx)
	if err != nil {
		return nil, err
	}
	a.crew.work(ctx)
	defer a.crew.rest()
	if err := a.crew.acknowledged(ctx, actJobs); err != nil {
		return nil, err
	}
	all := a.Cluster.Members()
	a.r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	behind := slices.IndexFunc(all, func(s *fault.Server) bool { return s.ID != string(settled.Leader) })
	if err := all[behind].Pause(); err != nil {
		return nil, err
	}
	if err := a.crew.acknowledged(ctx, actJobs); err != nil {
		return nil, err
	}
	apart := time.Duration(a.r.IntN(2)*a.r.IntN(400)) * time.Millisecond
	for _, s := range all {
		s.Kill()
		fault.Rest(ctx, apart)
	}
	r.At = a.Rec.Now()
	a.crew.rest()
	for _, s := range all {
		s.Bury()
		d, err := s.Disk(ctx)
		if err != nil {
			return nil, err
		}
		r.Disks = append(r.Disks, d)
	}
	return all, nil
}

// choose returns the disk that goes furthest, as operators are instructed to.
func (a *aftermath) choose(r *check.Recovery, readable []*fault.Server) *fault.Server {
	disk := func(s *fault.Server) check.Disk {
		return r.Disks[slices.IndexFunc(r.Disks, func(d check.Disk) bool { return d.Node == s.ID })]
	}
	return slices.MaxFunc(readable, func(x, y *fault.Server) int {
		dx, dy := disk(x), disk(y)
		return cmp.Or(cmp.Compare(dx.Term, dy.Term), cmp.Compare(dx.Index, dy.Index))
	})
}

// growsAgain lets two new nodes join the recovered one, and load go on.
func (a *aftermath) growsAgain(ctx context.Context, r *check.Recovery) error {
	r.Wanted = []string{r.Heir}
	for range 2 {
		s, err := a.Cluster.Fresh()
		if err != nil {
			return err
		}
		r.Wanted = append(r.Wanted, s.ID)
	}
	slices.Sort(r.Wanted)
	a.crew.work(ctx)
	defer a.crew.rest()
	err := a.awaiting(ctx, "three nodes vote", func(ctx context.Context, c *client.Client) (err error) {
		r.Members, err = votersOf(ctx, c)
		if err == nil && !slices.Equal(r.Members, r.Wanted) {
			err = fmt.Errorf("the voters are %v", r.Members)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := a.crew.acknowledged(ctx, actJobs); err != nil {
		return err
	}
	a.crew.rest()
	if r.Members, err = a.members(ctx); err != nil {
		return err
	}
	r.Verdict, err = a.Cluster.Verify(ctx)
	return err
}

// members lists all members of the recovered cluster, voters or not.
func (a *aftermath) members(ctx context.Context) (ids []string, err error) {
	err = a.awaiting(ctx, "its members", func(ctx context.Context, c *client.Client) error {
		var peers []rota.RaftPeer
		peers, err := c.Peers(ctx)
		ids = nil
		for _, p := range peers {
			ids = append(ids, string(p.ID))
		}
		return err
	})
	slices.Sort(ids)
	return ids, err
}

// auditHeir replays the log of the recovered disk, once all have stopped.
func (w *trial) auditHeir() {
	heir := w.Cluster.Heir()
	if heir == nil {
		return
	}
	audit := auditOf(w.Cluster.Binary, heir.ID, filepath.Join(w.Cluster.Dir, heir.ID), w.patience(maxAudit))
	w.Rec.With(func(h *check.History) {
		if h.After != nil {
			h.After.Audit = &audit
		}
	})
}
