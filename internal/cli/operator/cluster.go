package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// ClusterCommands are the commands of `rota cluster`.
type ClusterCommands struct{ *cli.App }

// Command returns `rota cluster` and the commands below it.
func (a ClusterCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "cluster", Short: "See the cluster and change its settings"},
		a.clusterStatusCommand(), a.clusterSetCommand())
}

func (a ClusterCommands) clusterStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the leader and every node with its faults; exit 7 without a leader",
		Long: `Show the leader and every node with its faults; exit 7 without a leader. It counts the workers that
are registered and not RETIRED. The numbers of ended jobs are totals.`,
		Args: cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			for i := range s.Nodes {
				if s.Nodes[i].Problems == nil {
					s.Nodes[i].Problems = []string{}
				}
			}
			if s.Nodes == nil {
				s.Nodes = []rota.NodeStatus{}
			}
			names := make([]string, len(s.Nodes))
			for i, n := range s.Nodes {
				names[i] = string(n.ID)
			}
			if err := a.PrintOne(s, names, func(wide bool) string { return StatusTable(s, wide) }); err != nil {
				return err
			}
			if s.Leader == "" {
				return rota.Refusef(rota.KindUnavailable, "leader",
					"the cluster has no leader (runbook: "+cli.Runbooks+"RotaNoLeader.md)")
			}
			return nil
		})),
	}
}

func (a ClusterCommands) clusterSetCommand() *cobra.Command {
	var how cli.SetFlags
	cmd := &cobra.Command{
		Use:   "set KEY=VALUE… [--dry-run] [--if-match ETAG]",
		Short: "Change the cluster's own settings",
		Long: `Change the cluster's own settings; other settings stay.

state_bytes_max  the bytes that jobs, workflows, workers, queues and tenants may hold.
                 Submissions beyond it are refused. A node needs four times as much memory.
voters_wanted    the number of healthy voters. The leader removes a voter that has been dead
                 for ten minutes once there are this many others. It raises the number to
                 the healthy voters; lower it to continue with fewer.
autopilot        on or off: whether the leader removes dead voters.`,
		Example: "  rota cluster set state_bytes_max=4GiB\n  rota cluster set voters_wanted=3",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			set, err := clusterSettings(args)
			if err != nil {
				return err
			}
			s, err := c.SetCluster(ctx, set, how.Options()...)
			if err != nil {
				return err
			}
			if how.Dry {
				return how.Would(a.App, s, "", s.Changes)
			}
			return a.PrintOne(s, nil, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "state bytes max", Value: s.StateBytesMax},
					{Name: "voters wanted", Value: s.VotersWanted}, {Name: "autopilot", Value: s.Autopilot}})
			})
		})),
	}
	how.Register(cmd.Flags())
	return cmd
}

// clusterSettings checks keys and values before the cluster is asked.
func clusterSettings(pairs []string) (set []rota.Setting, err error) {
	scratch := rota.DefaultClusterSettings()
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, cli.Usagef("got %q; use KEY=VALUE", pair)
		}
		s := rota.Setting{Key: key, Value: value}
		if err := scratch.Set(s); err != nil {
			return nil, err
		}
		set = append(set, s)
	}
	return set, nil
}

// modeText is the mode with its reason.
func modeText(s rota.ClusterStatus) string {
	text := s.Mode.String()
	if s.Drained {
		text += ", drained"
	}
	if s.ModeReason != "" {
		text += ": " + s.ModeReason
	}
	return text
}

// backupText is the last backup that a leader stored.
func backupText(b *rota.StoredBackup) string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("%s of %s, sha256 %s", b.Name, b.Date, b.SHA256)
}

// zonesText describes the release of the time zone database in force; t is nil where the node is older.
func zonesText(t *rota.TZData) string {
	switch {
	case t == nil:
		return "unknown"
	case t.Index == 0:
		return fmt.Sprintf("%s of %s, from the node's binary", t.Release, t.Released)
	}
	return fmt.Sprintf("%s of %s, installed at index %d", t.Name(), t.Released, t.Index)
}

// StatusTable shows a cluster for people.
func StatusTable(s rota.ClusterStatus, wide bool) string {
	j := s.Jobs
	text := cli.RenderFacts([]cli.Fact{
		{Name: "cluster", Value: s.ClusterID}, {Name: "leader", Value: cli.Or(string(s.Leader), "none")},
		{Name: "term", Value: s.Term},
		{Name: "applied index", Value: uint64(s.AppliedIndex)}, {Name: "date", Value: s.Date},
		{Name: "mode", Value: modeText(s)}, {Name: "rules version", Value: s.RulesVersion},
		{Name: "workers", Value: s.Workers},
		{Name: "state bytes", Value: fmt.Sprintf("%d of %d", s.StateBytes, s.StateBytesMax)},
		{Name: "voters", Value: votersText(s.Leader, s.Autopilot)},
		{Name: "last backup", Value: backupText(s.Backup)}, {Name: "tzdata", Value: zonesText(s.TZData)},
		{Name: "pending", Value: j.Blocked + j.Delayed + j.Queued}, {Name: "running", Value: j.Assigned + j.Running},
		{Name: "completed", Value: j.Completed}, {Name: "dead", Value: j.Dead}, {Name: "expired", Value: j.Expired},
		{Name: "cancelled", Value: j.Cancelled},
	})
	return text + "\n" + cli.RenderList([]cli.Column[rota.NodeStatus]{
		{Head: "NODE", Cell: func(n rota.NodeStatus) any { return n.ID }},
		{Head: "STATE", Cell: func(n rota.NodeStatus) any { return n.State }},
		{Head: "VOTER", Cell: func(n rota.NodeStatus) any { return votes(n.Voter, n.NonVoter) }},
		{Head: "API", Cell: func(n rota.NodeStatus) any { return n.API }},
		{Head: "RAFT", Wide: true, Cell: func(n rota.NodeStatus) any { return n.Raft }},
		{Head: "VERSION", Wide: true, Cell: func(n rota.NodeStatus) any { return n.Version }},
		{Head: "RULES", Wide: true, Cell: func(n rota.NodeStatus) any {
			return cli.OfSome(int64(n.RulesVersion), int64(n.RulesVersion))
		}},
		{Head: "APPLIED", Cell: func(n rota.NodeStatus) any {
			return cli.OfSome(int64(n.AppliedIndex), int64(n.AppliedIndex))
		}},
		{Head: "DIGEST", Wide: true, Cell: func(n rota.NodeStatus) any { return digestText(n.Digest) }},
		{Head: "HEALTHY", Cell: func(n rota.NodeStatus) any { return n.Healthy }},
		{Head: "SINCE", Wide: true, Cell: func(n rota.NodeStatus) any { return ifEver(n.HealthySince) }},
		{Head: "CONTACT", Wide: true, Cell: func(n rota.NodeStatus) any { return ifEver(n.LastContact) }},
		{Head: "SNAPSHOT", Wide: true, Cell: func(n rota.NodeStatus) any { return snapshotText(n.Snapshot) }},
		{Head: "ARCHIVE", Wide: true, Cell: func(n rota.NodeStatus) any { return archiveText(n.Archive) }},
	}, s.Nodes, wide) + ProblemsText(s)
}

func snapshotText(s *rota.NodeSnapshot) any {
	if s == nil {
		return nil
	}
	return fmt.Sprintf("%d of %s, %d bytes", s.Index, s.Date, s.Bytes)
}

// archiveText says how many ended jobs an archive keeps, since when, and how late it is.
func archiveText(a *rota.NodeArchive) any {
	if a == nil {
		return nil
	}
	text := fmt.Sprintf("%d jobs, %d bytes", a.Records, a.Bytes)
	if a.Oldest != 0 {
		text += fmt.Sprintf(", since %s", a.Oldest)
	}
	if a.Staged > 0 {
		text += fmt.Sprintf(", %d wait, for %s", a.Staged, a.Lag)
	}
	if a.Lacking > 0 {
		text += fmt.Sprintf(", %d are fetched", a.Lacking)
	}
	if a.Lost > 0 {
		text += fmt.Sprintf(", %d are lost", a.Lost)
	}
	return text
}

// votersText says how many voters are healthy and wanted, and what is done about others.
func votersText(leader rota.NodeID, a rota.Autopilot) string {
	text := fmt.Sprintf("%d healthy for a minute, %d wanted", a.HealthyVoters, a.VotersWanted)
	if leader == "" {
		text = fmt.Sprintf("%d wanted", a.VotersWanted) // a leader alone knows how they are
	}
	if !a.On {
		text += ", autopilot is off"
	}
	if a.Text != "" {
		text += ": " + cli.Clean(a.Text)
	}
	return text
}

// votes says whether a node has a vote, or never gets one.
func votes(voter, never bool) any {
	if never && !voter {
		return "never"
	}
	return voter
}

// ifEver is nothing for a date that never was.
func ifEver(d rota.Date) any {
	if d == 0 {
		return nil
	}
	return d
}

// ProblemsText returns what is wrong, or will be soon, each on a line of its own and whole: what to do
// stands at its end.
func ProblemsText(s rota.ClusterStatus) string {
	var text strings.Builder
	for _, n := range s.Nodes {
		for _, p := range n.Problems {
			fmt.Fprintf(&text, "%s: %s\n", n.ID, cli.Clean(p))
		}
		if ends := n.CertificateEnds; ends != 0 && s.Date != 0 && ends.Time().Sub(s.Date.Time()) < cli.TlsWarnAhead {
			fmt.Fprintf(&text, "%s: its certificate ends %s: have a new one issued, it is read without a restart (runbook: %sRotaCertificateEnds.md)\n", n.ID, ends, cli.Runbooks)
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return "\nproblems\n" + text.String()
}

// digestText is "" for the digest of a node that told none.
func digestText(d rota.Digest) string {
	if d == (rota.Digest{}) {
		return ""
	}
	return d.String()
}
