package fsm

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// TestReadsBesideApplying reads data that a node returns from its state while the next entries are applied: data
// obtained under the lock may be read without it, and never changes. The race detector sees races that the digest of a
// frozen state does not.
func TestReadsBesideApplying(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 5))
	data := make([]byte, 1500)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	b := emptyBench(t)
	b.every, b.keepLog = 1_000, true
	b.lead()
	runMix(b, &dice{data: data})

	var lock sync.RWMutex
	m, over := New(), make(chan struct{})
	var readers sync.WaitGroup
	for reader := range uint64(3) {
		readers.Go(func() {
			chance := rand.New(rand.NewPCG(reader, 1))
			for {
				select {
				case <-over:
					return
				default:
				}
				readOutside(t, m, &lock, chance)
			}
		})
	}
	for i, entry := range b.log {
		lock.Lock()
		a, err := m.Apply(rota.Index(i+1), 1, entry)
		if err == nil {
			m.Recycle(a.Events)
		}
		lock.Unlock()
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(over)
	readers.Wait()
	if m.View.Head().Digest != b.View.Head().Digest {
		t.Errorf("digest %s, %s without readers", m.View.Head().Digest, b.View.Head().Digest)
	}
}

// readOutside obtains one of the things that reads consist of, and reads it after the lock is released.
func readOutside(t *testing.T, m *Machine, lock *sync.RWMutex, chance *rand.Rand) {
	switch chance.IntN(4) {
	case 0:
		lock.Lock()
		f := m.Freeze()
		lock.Unlock()
		if _, err := f.Thaw(); err != nil {
			t.Error(err)
		}
	case 1:
		lock.Lock()
		list := m.View.Jobs()
		lock.Unlock()
		if _, err := list.Page(rota.JobFilter{Limit: 1000}, noHistory{}); err != nil {
			t.Error(err)
		}
	case 2:
		lock.RLock()
		staged := m.View.Staged(20, 1<<30)
		lock.RUnlock()
		for _, s := range staged {
			if e, err := DecodeEnded(s.Append(nil)); err != nil || e.Seq != s.Seq {
				t.Error(err)
			}
		}
	case 3:
		var told []rota.Job
		var given []rota.Assignment
		lock.RLock()
		m.JobTable.Scan(func(id rota.JobID, _ *state.JobRow) bool {
			job, _ := m.View.Job(id)
			told = append(told, job)
			return len(told) < 50
		})
		m.View.LiveWorkers(func(id rota.WorkerID, s rota.Session, _ rota.WorkerStatus, _ rota.Clock) {
			given = append(given, m.View.Assignments(id, s)...)
		})
		rounds := m.View.Decide(100)
		lock.RUnlock()
		for _, j := range told {
			if j.State.Leased() != (j.Lease != nil) || j.Lease != nil && j.Lease.Job != j.ID {
				t.Errorf("job %s is %s with lease %+v", j.ID, j.State, j.Lease)
			}
			for i := range j.Attempts {
				if j.Attempts[i].Number < 0 {
					t.Errorf("job %s: %+v", j.ID, j.Attempts[i])
				}
			}
		}
		for _, a := range given {
			if a.Lease.Job != a.Spec.ID {
				t.Errorf("lease of %s with the spec of %s", a.Lease.Job, a.Spec.ID)
			}
		}
		_ = opsOf(rounds)
	}
}
