package cluster

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
)

// diskLevel is how full a data directory's disk is. A full one ends the process, so the cluster accepts less before
// that: first no new jobs, then only operations that end work.
type diskLevel uint8

const (
	diskRoomy diskLevel = iota
	diskLow
	diskCritical
)

const (
	// maxDiskLow and maxDiskCritical bound the bytes that these require on a large disk.
	maxDiskLow      = 8 << 30
	maxDiskCritical = 4 << 30
	// A level is left once this much is free, in permille of the level's mark: deleting a file must not make it flap.
	diskLeave = 1_200
	// diskEvery is how often the disk is checked; diskRetry is when a rejected caller may retry.
	diskEvery = time.Second
	diskRetry = 10 * time.Second
	// diskYieldEvery is the minimum time between two handovers because of the disk.
	diskYieldEvery = 10 * time.Minute
)

// diskGate holds what a node knows about its own disk, and what it rejects because of it.
type diskGate struct {
	n          *base
	membership *membership
	terms      *terms
	watch      *watcher

	// read replaces FreeSpace in tests.
	read func(path string) (free, total uint64, err error)
	path string
	// low and critical are in percent, 0 is off.
	low, critical uint64

	// state is the verdict that the cluster follows; nil before the first check.
	state atomic.Pointer[diskVerdict]
	// yielded is when leadership was last handed over because of the disk, in time since boot.
	yielded atomic.Int64
	// asked counts the bytes of operations proposed to this node while it was the leader, answered those of them that
	// are on the disk or were rejected.
	asked, answered atomic.Uint64
	// soon requests an early check.
	soon chan struct{}

	mu          sync.Mutex
	level       diskLevel
	free, total uint64
	// room is how many bytes may be written before the next level, unlimited before the first check, since peers ask
	// for it immediately. seen is the value of answered at that check.
	room, seen uint64
	err        error
	refused    uint64
}

// look reads the disk and reports whether its level changed.
func (dg *diskGate) look() (level diskLevel, changed bool) {
	seen := dg.answered.Load()
	free, total, err := dg.read(dg.path)
	dg.mu.Lock()
	defer dg.mu.Unlock()
	dg.free, dg.total, dg.err = free, total, err
	if err != nil || total == 0 {
		return dg.level, false // unknown is not full: a failing disk shows in its writes
	}
	before := dg.level
	low, critical := mustBeFree(total, dg.low, maxDiskLow), mustBeFree(total, dg.critical, maxDiskCritical)
	dg.level = levelOf(before, free, low, critical)
	dg.room, dg.seen = roomOf(dg.level, free, low, critical), seen
	return dg.level, dg.level != before
}

// levelOf returns the level that follows before; the marks are in bytes.
func levelOf(before diskLevel, free, low, critical uint64) diskLevel {
	holds := func(at diskLevel, mark uint64) bool {
		return free < mark || before >= at && free < mark*diskLeave/1000
	}
	switch {
	case holds(diskCritical, critical):
		return diskCritical
	case holds(diskLow, low):
		return diskLow
	default:
		return diskRoomy
	}
}

// mustBeFree returns how many bytes must be free, 0 if it is off.
func mustBeFree(total, percent, most uint64) uint64 { return min(total/100*percent, most) }

// percent converts a configured value, where a negative one is off.
func percent(configured int) uint64 { return uint64(max(configured, 0)) }

// now returns the level at the last check.
func (dg *diskGate) now() diskLevel {
	dg.mu.Lock()
	defer dg.mu.Unlock()
	return dg.level
}

// report returns the level at the last check and the room before the next one.
func (dg *diskGate) report() (level uint8, room uint64) {
	dg.mu.Lock()
	defer dg.mu.Unlock()
	return uint8(dg.level), dg.room
}

// run checks the disk periodically. It ends the node if its log was removed from the disk: its votes and
// acknowledgements would count towards a majority and be forgotten at its next start.
func (dg *diskGate) run() {
	tick := dg.n.ticker(diskEvery)
	defer tick.Stop()
	for {
		if err := dg.n.stores.Lost(); err != nil {
			dg.n.fatal(err)
			return
		}
		if level, changed := dg.look(); changed {
			text := dg.text(dg.n.cfg.Node)
			switch level {
			case diskRoomy:
				dg.n.log.Warn("the disk has room again: " + text)
			default:
				dg.n.log.Error("the disk fills up: "+text+" "+ownDiskEffect(level), "free", dg.free, "total", dg.total)
			}
		}
		dg.yieldFull(dg.weighDisks())
		select {
		case <-tick.Tick():
		case <-dg.soon:
		case <-dg.n.stopped:
			return
		}
	}
}

func (dg *diskGate) text(id rota.NodeID) string {
	dg.mu.Lock()
	defer dg.mu.Unlock()
	return fmt.Sprintf("data directory %s of node %s has %d of %d MiB free.", dg.path, id, dg.free>>20, dg.total>>20)
}

// diskEffect describes the effect of a level, and the remedy.
func diskEffect(level diskLevel) string {
	// Lowering retentions is not suggested: the files that they empty keep their size.
	const remedy = " Free space there, or enlarge the disk"
	if level == diskCritical {
		return "Only calls that let running work end are accepted, and nothing is started." + remedy
	}
	return "No new jobs are admitted." + remedy
}

// ownDiskEffect is diskEffect for one node's level, which may affect that node alone (weighDisks).
func ownDiskEffect(level diskLevel) string {
	return "If it leads, or a majority of the disks is not better: " + diskEffect(level)
}

// diskVerdict is the result of inForce.
type diskVerdict struct {
	level diskLevel
	from  []rota.NodeID
	// better reports that a majority of the voters has more room than this node.
	better bool
	// until is the value of asked at which the disks must be weighed again.
	until uint64
}

// yieldFull makes a verdict take effect. A leader whose disk is fuller than a majority's hands over, so that one full
// disk does not stop the cluster. If leadership comes back, it does not do so again for diskYieldEvery.
func (dg *diskGate) yieldFull(s *diskVerdict) {
	dg.state.Store(s)
	if !s.better || dg.terms.leading() == nil {
		return
	}
	now := dg.n.sinceBoot()
	if last := time.Duration(dg.yielded.Load()); last != 0 && now-last < diskYieldEvery {
		return
	}
	dg.yielded.Store(int64(now))
	dg.n.log.Warn("this node's disk fills up and others' do not: leadership is handed over")
	go func() {
		ctx, cancel := context.WithTimeout(dg.n.life, raftTimeout)
		defer cancel()
		dg.terms.handOver(ctx)
	}()
}

// space returns the free bytes of the disk at the last check, and its size.
func (dg *diskGate) space() (free, total int64) {
	dg.mu.Lock()
	defer dg.mu.Unlock()
	return int64(min(dg.free, math.MaxInt64)), int64(min(dg.total, math.MaxInt64))
}

// Problems reports the faults of this node's disk.
func (dg *diskGate) Problems() []string {
	dg.mu.Lock()
	level, err := dg.level, dg.err
	dg.mu.Unlock()
	switch {
	case err != nil:
		return []string{"free space of the data directory cannot be read: " + err.Error() +
			". Until it can, this node does not see its disk fill up"}
	case level == diskRoomy:
		return nil
	}
	return []string{dg.text(dg.n.cfg.Node) + " " + ownDiskEffect(level)}
}

func (dg *diskGate) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_disk_level",
			Help: "0 where this node's disk has room, 1 below --disk-low, 2 below --disk-critical."}, func() float64 {
			return float64(dg.now())
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_disk_refused_total",
			Help: "Operations that this node refused, while it led, as disks were too full."}, func() float64 {
			dg.mu.Lock()
			defer dg.mu.Unlock()
			return float64(dg.refused)
		}),
	}
}

// diskCost is how many bytes of disk a byte of an operation may use: partly filled pages, and files other than the log.
const diskCost = 2

// diskView describes a node's disk: the level and the room at a check, and how many bytes this node, the leader, had
// answered before it. A burst fills a small disk between two checks; so bytes proposed since then count as written.
type diskView struct {
	level diskLevel
	// room is how many bytes may be written before the next level, math.MaxUint64 if there is none.
	room, seen uint64
}

// at returns the level once everything proposed is written.
func (v diskView) at(asked uint64) diskLevel {
	if v.level < diskCritical && asked-min(asked, v.seen) > v.room/diskCost {
		return v.level + 1
	}
	return v.level
}

// until returns how many bytes may be proposed before the disk must be checked again: half of the distance to the next
// level.
func (v diskView) until() uint64 {
	if v.level == diskCritical {
		return math.MaxUint64
	}
	if half := v.room / diskCost / 2; half < math.MaxUint64-v.seen {
		return v.seen + half
	}
	return math.MaxUint64
}

// roomOf returns how many bytes are between a level and the next one.
func roomOf(level diskLevel, free, low, critical uint64) uint64 {
	switch {
	case level == diskRoomy && low > 0:
		return free - min(free, low)
	case level < diskCritical && critical > 0:
		return free - min(free, critical)
	default:
		return math.MaxUint64
	}
}

// forSnapshots returns how many bytes a snapshot may use now. The last ones are reserved for the log.
func (dg *diskGate) forSnapshots() uint64 {
	return dg.above(func(_, critical uint64) uint64 { return critical })
}

// forHistory returns how many bytes ended jobs and events may use now. They stop halfway between the marks: keeping
// ended jobs must not bring a node to the level where nothing is started, since accepted jobs would then wait until
// space is freed.
func (dg *diskGate) forHistory() uint64 {
	return dg.above(func(low, critical uint64) uint64 {
		if low <= critical { // off
			low = 2 * critical
		}
		return (critical + low) / 2
	})
}

// above returns how many bytes are free above a mark between low and critical.
func (dg *diskGate) above(mark func(low, critical uint64) uint64) uint64 {
	free, total, err := dg.read(dg.path)
	if err != nil || total == 0 {
		return math.MaxUint64
	}
	return free - min(free, mark(mustBeFree(total, dg.low, maxDiskLow),
		mustBeFree(total, dg.critical, maxDiskCritical)))
}

// spend counts bytes proposed to the log; the caller calls the function it returns once they are answered.
func (dg *diskGate) spend(bytes int) (done func()) {
	if asked := dg.asked.Add(uint64(bytes)); asked >= dg.until() {
		select {
		case dg.soon <- struct{}{}:
		default:
		}
		dg.state.Store(dg.weighDisks())
	}
	return func() { dg.answered.Add(uint64(bytes)) }
}

func (dg *diskGate) until() uint64 {
	if s := dg.state.Load(); s != nil {
		return s.until
	}
	return math.MaxUint64
}

// inForce returns the level that this node applies while it is the leader, and the nodes that cause it.
func (dg *diskGate) inForce() (diskLevel, []rota.NodeID) {
	if s := dg.state.Load(); s != nil {
		return s.level, s.from
	}
	return diskRoomy, nil
}

// weighDisks calculates the level that the cluster follows, and the nodes that cause it: the level of this node, the
// leader, or the level such that a majority of the voters has no better one. A single follower with a full disk affects
// only itself: the cluster continues without it, so no work is rejected because of it.
func (dg *diskGate) weighDisks() *diskVerdict {
	asked := dg.asked.Load()
	dg.mu.Lock()
	view := diskView{dg.level, dg.room, dg.seen}
	dg.mu.Unlock()
	own, until := view.at(asked), view.until()
	levels := map[rota.NodeID]diskLevel{dg.n.cfg.Node: own}
	var known []diskLevel
	voters := 0
	servers := dg.membership.servers()
	dg.watch.mu.Lock()
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		id := rota.NodeID(s.ID)
		if v, ok := dg.watch.peers[id]; ok && v.err == nil {
			levels[id], until = v.disk.at(asked), min(until, v.disk.until())
		}
		if l, ok := levels[id]; ok {
			known = append(known, l)
		}
	}
	dg.watch.mu.Unlock()
	level, from, better := own, []rota.NodeID(nil), false
	slices.Sort(known)
	if majority := voters/2 + 1; len(known) >= majority {
		level, better = max(level, known[majority-1]), known[majority-1] < own
	}
	for id, l := range levels {
		if l >= level {
			from = append(from, id)
		}
	}
	slices.Sort(from)
	return &diskVerdict{level, from, better, until}
}
