package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// onDisks gives the disks of servers the same fault.
func onDisks(servers []*Server, f diskFault, note string) blow {
	b := blow{targets: namesOf(servers), note: note}
	var ends []func() error
	for _, s := range servers {
		end, err := s.disk.faults.begin(f)
		ends, b.err = append(ends, end), errors.Join(b.err, err)
	}
	b.mend = func() (all error) {
		for _, end := range ends {
			all = errors.Join(all, end())
		}
		return all
	}
	return b
}

// slowSync makes each fsync of a node take 200 ms to 10 s.
func slowSync(_ context.Context, w *World, r *rand.Rand) blow {
	s := prey(w, r)
	ms := int64(200) << r.IntN(6)
	ms += r.Int64N(ms)
	ms = min(ms, 10_000)
	return onDisks([]*Server{s}, diskFault{SyncDelayMs: ms}, fmt.Sprintf("fsync takes %d ms", ms))
}

// hangSync blocks every fsync of a node until the fault ends; a third of the time long enough that a leader must have a
// successor.
func hangSync(ctx context.Context, w *World, r *rand.Rand) blow {
	s, long := prey(w, r), r.IntN(3) == 0
	b := onDisks([]*Server{s}, diskFault{SyncHang: true}, "")
	if long {
		Rest(ctx, check.MaxHung)
	}
	return b
}

// failSync makes one fsync of a node fail.
func failSync(_ context.Context, w *World, r *rand.Rand) blow {
	s, n := prey(w, r), 1+r.IntN(6)
	return onDisks([]*Server{s}, diskFault{FailSync: n}, fmt.Sprintf("fsync number %d fails", n))
}

// failWrites makes every write and fsync of a node fail.
func failWrites(_ context.Context, w *World, r *rand.Rand) blow {
	return onDisks([]*Server{prey(w, r)}, diskFault{FailWrites: true}, "")
}

// fillDisk leaves a node no free space.
func fillDisk(_ context.Context, w *World, r *rand.Rand) blow {
	return onDisks([]*Server{prey(w, r)}, diskFault{Full: true}, "")
}

// fillUp makes disks report little free space, below either watermark; of one node, or of all.
func fillUp(_ context.Context, w *World, r *rand.Rand) blow {
	servers := []*Server{prey(w, r)}
	if r.IntN(2) == 0 {
		servers = w.Cluster.Members()
	}
	free := []uint64{1_200, 400}[r.IntN(2)] // of 16 GiB; the marks are 10 % and 5 %
	return onDisks(servers, diskFault{FreeMiB: free}, fmt.Sprintf("%d MiB free", free))
}

func losePowerOne(_ context.Context, w *World, r *rand.Rand) blow {
	return losePower(w, r, []*Server{prey(w, r)})
}

func losePowerMajority(_ context.Context, w *World, r *rand.Rand) blow {
	return losePower(w, r, some(w, r, len(w.Cluster.Members())/2+1))
}

func losePowerAll(_ context.Context, w *World, r *rand.Rand) blow {
	return losePower(w, r, w.Cluster.Members())
}

// losePower kills nodes and destroys the data that their disks had not synced: all of it half the time, otherwise a
// part, as a disk may have written data without an fsync.
func losePower(_ *World, r *rand.Rand, servers []*Server) blow {
	seed, note := uint64(0), "all that was not synced is lost"
	if r.IntN(2) == 0 {
		seed, note = 1+r.Uint64N(1<<62), "a part of the unsynced data is lost"
	}
	var mu sync.Mutex
	var all, down sync.WaitGroup
	b := blow{targets: namesOf(servers)}
	var took lost
	down.Add(len(servers))
	for _, s := range servers {
		all.Go(func() {
			s.keep()
			defer s.free()
			down.Done()
			down.Wait() // no disk forgets while another node still trusts it
			one, err := s.disk.lose(seed)
			mu.Lock()
			defer mu.Unlock()
			took.Blocks, took.Names, took.Stayed = took.Blocks+one.Blocks, took.Names+one.Names, took.Stayed+one.Stayed
			b.err = errors.Join(b.err, err)
		})
	}
	all.Wait()
	b.note = fmt.Sprintf("%s: %d blocks, %d names lost, %d stayed", note, took.Blocks, took.Names, took.Stayed)
	b.mend = func() (err error) {
		for _, s := range servers {
			err = errors.Join(err, s.Start())
		}
		return err
	}
	return b
}
