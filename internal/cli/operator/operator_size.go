package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/limits"
)

// What a job takes, as measured: docs/operations/sizing.md has each figure with its command.
const (
	// sizePending is what a pending job takes of memory beside its payload, sizeEnded one that ended
	// and is remembered, and sizeWorker a connected worker with its stream.
	sizePending, sizeEnded, sizeWorker = 350, 237, 72 << 10
	// SizeBase is a server under full load that holds next to nothing, without garbage.
	SizeBase = 140 << 20
	// sizeArchive and sizeLog are what a job that went through takes on disk beside its payload:
	// itself with its five events, and its operations in the log.
	sizeArchive, sizeLog = 915, 506
	// sizeOps is how many operations a job is at least: submitted, assigned, acknowledged, completed.
	sizeOps = 4
	// sizeWire is what a job moves between clients, workers and three nodes beside its payload, which goes to
	// the leader, to two followers and to a worker.
	sizeWire, sizeWays = 1456, 4
	// sizeSpare is what is added to memory: the measured points lie up to so much above.
	sizeSpare = 45
	// MaxSizeRate is far beyond what one leader decides, and keeps products within 64 bits.
	MaxSizeRate = 100_000
)

// sizeSteps are, for at most so many workers, rates up to which so many cores of a node are enough: all three nodes,
// submitters and workers of one slot reached more than the last on two cores together, and half of it is what two get.
var sizeSteps = []struct {
	workers int64
	rates   []struct{ rate, cores int64 }
}{
	{1_000, []struct{ rate, cores int64 }{{200, 1}, {4_000, 2}, {7_500, 4}}},
	{10_000, []struct{ rate, cores int64 }{{200, 1}, {1_700, 2}, {3_400, 4}}},
}

// Load is what a cluster is to carry.
type Load struct {
	Rate      int64         `json:"jobs_per_s"`
	Pending   int64         `json:"pending"`
	Workers   int64         `json:"workers"`
	Payload   int64         `json:"payload_bytes"`
	Retention time.Duration `json:"-"`
	// ArchiveMax and Audit are the servers' --archive-max-bytes and --audit-retention.
	ArchiveMax int64 `json:"archive_max_bytes"`
	Audit      int64 `json:"audit_retention"`
}

// nodeSize is what one node of three is to have for it.
type nodeSize struct {
	Load
	// Cores is 0 where the rate, or the workers, are beyond what was measured.
	Cores  int64 `json:"cores"`
	Memory int64 `json:"memory_bytes"`
	// State is what of the memory counts against the cluster's state_bytes_max.
	State int64 `json:"state_bytes"`
	Disk  int64 `json:"disk_bytes"`
	// Kept is how long jobs that ended stay in the archive: less than the retention where its bytes run out before.
	Kept time.Duration `json:"-"`
	// Network is what all nodes, clients and workers move together.
	Network int64 `json:"network_bytes_per_s"`
	// RetentionMs and KeptMs are Retention and Kept.
	RetentionMs int64    `json:"archive_retention_ms"`
	KeptMs      int64    `json:"archive_kept_ms"`
	Notes       []string `json:"notes"`
}

// Size computes what a node wants.
func (l Load) Size() nodeSize {
	s := nodeSize{Load: l, Notes: []string{}, Network: l.Rate * (sizeWire + sizeWays*l.Payload)}
	s.Cores = l.cores()
	s.State = l.Pending * (sizePending + l.Payload)
	ended := min(limits.TombstoneCap, l.Rate*int64(l.Retention.Seconds()))
	live := s.State + ended*sizeEnded
	s.Memory = (SizeBase + live + garbage(live) + l.Workers*sizeWorker) * (100 + sizeSpare) / 100

	archive, kept := l.Rate*int64(l.Retention.Seconds())*(sizeArchive+l.Payload), l.Retention
	if archive > l.ArchiveMax {
		archive, kept = l.ArchiveMax, time.Duration(l.ArchiveMax/(sizeArchive+l.Payload)*int64(time.Second)/max(l.Rate,
			1))
	}
	s.Kept, s.KeptMs, s.RetentionMs = kept, kept.Milliseconds(), l.Retention.Milliseconds()
	s.Disk = archive + l.Audit/sizeOps*(sizeLog+l.Payload) + 2*s.State
	s.Disk += s.Disk / 5 // the share under which no new jobs are admitted, twice
	s.note()
	return s
}

// cores returns how many were enough, 0 where that is not known.
func (l Load) cores() int64 {
	for _, step := range sizeSteps {
		if l.Workers > step.workers {
			continue
		}
		for _, s := range step.rates {
			if l.Rate <= s.rate {
				return s.cores
			}
		}
		return 0
	}
	return 0
}

// garbage is what the collector lets stand beside what lives where memory is scarce (internal/server/memory.go).
func garbage(live int64) int64 {
	return max(min(max(live+live/2, 256<<20), 1<<30), live/10)
}

func (s *nodeSize) note() {
	if s.Cores == 0 {
		s.Notes = append(s.Notes,
			fmt.Sprintf("%d jobs/s with %d workers is more than was measured: one leader decides for all queues. Measure it with rota bench jobs, or run a second cluster",
				s.Rate, s.Workers))
	}
	if few := (Load{Rate: s.Rate}).cores(); s.Cores > few {
		s.Notes = append(s.Notes,
			fmt.Sprintf("cores are for %d workers of one slot, each with a connection: fewer workers with more slots do with %d",
				s.Workers, few))
	}
	if s.State > rota.DefaultStateBytesMax {
		s.Notes = append(s.Notes,
			fmt.Sprintf("pending jobs take more than the default of state_bytes_max: rota cluster set state_bytes_max=%d",
				s.State+s.State/4))
	}
	if s.Kept < s.Retention {
		s.Notes = append(s.Notes,
			fmt.Sprintf("the archive is full after %s: --archive-max-bytes %d keeps jobs for all of %s. A job id that is submitted again %s after its job ended, or later, becomes a new job",
				s.Kept.Round(time.Minute), s.Rate*int64(s.Retention.Seconds())*(sizeArchive+s.Payload), s.Retention,
				s.known().Round(time.Minute)))
	}
	if s.Pending > 0 && s.Rate > 0 && s.Pending/s.Rate > 24*60*60 {
		s.Notes = append(s.Notes, "the pending jobs are more than a day's work at this rate")
	}
}

// known is for how long the id of a job that ended is: as long as the state remembers it or the archive keeps it.
func (s *nodeSize) known() time.Duration {
	return max(s.Kept, min(s.Retention, time.Duration(limits.TombstoneCap/max(s.Rate, 1))*time.Second))
}

func (a Commands) size() *cobra.Command {
	l := &Load{}
	cmd := &cobra.Command{
		Use:   "size [--rate R] [--pending N] [--workers N] [--payload BYTES]",
		Short: "Compute the resources that each of three nodes needs for a load, from measurements",
		Long: `Compute cores, memory, disk and network of a node for a load, from measurements on one kind of
machine. The measured jobs do not fail and use no schedules, keys, workflows or logs. Confirm it
with rota bench jobs on your machines.`,
		Example: "  rota operator size --rate 500 --pending 1000000 --workers 200 --payload 1024",
		Args:    cobra.NoArgs,
		RunE: a.Does(func(context.Context, []string) error {
			s := l.Size()
			return a.PrintOne(s, []string{"size"}, func(bool) string { return s.text() })
		}),
	}
	flags := cmd.Flags()
	flags.Int64Var(&l.Rate, "rate", 100, "jobs a second, in the busiest hour")
	flags.Int64Var(&l.Pending, "pending", 100_000, "jobs that wait, at most")
	flags.Int64Var(&l.Workers, "workers", 100, "workers that are connected")
	flags.Int64Var(&l.Payload, "payload", 256, "`bytes` of payload a job")
	cli.DurationVar(flags, &l.Retention, "archive-retention", 7*24*time.Hour, "how long ended jobs are to be kept")
	flags.Int64Var(&l.ArchiveMax, "archive-max-bytes", 8<<30,
		"`bytes` of ended jobs kept on disk at most, as the servers have it")
	flags.Int64Var(&l.Audit, "audit-retention", 1_000_000, "`operations` that can be audited, as the servers have it")
	cli.Within(flags, 0, MaxSizeRate, "rate")
	cli.Within(flags, 0, 1_000_000_000, "pending", "audit-retention")
	cli.Within(flags, 0, limits.MaxWorkers, "workers")
	cli.Within(flags, 0, rota.MaxPayloadBytes, "payload")
	cli.Within(flags, 0, 366*24*time.Hour, "archive-retention")
	cli.Within(flags, 0, 1<<50, "archive-max-bytes")
	return cmd
}

func (s nodeSize) text() string {
	cores := fmt.Sprint(s.Cores)
	if s.Cores == 0 {
		cores = "not known"
	}
	text := cli.RenderFacts([]cli.Fact{
		{Name: "cores", Value: cores}, {Name: "memory", Value: gibibytes(s.Memory)},
		{Name: "of it the state", Value: gibibytes(s.State)}, {Name: "disk", Value: gibibytes(s.Disk)},
		{Name: "archive keeps", Value: s.Kept.Round(time.Minute)},
		{Name: "network", Value: fmt.Sprintf("%.1f MiB/s, all nodes, clients and workers together",
			float64(s.Network)/(1<<20))},
	})
	if len(s.Notes) > 0 {
		text += "\n" + strings.Join(s.Notes, "\n") + "\n"
	}
	return text
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
