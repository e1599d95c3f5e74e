package operator

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// Commands are the commands of those who run a cluster: Raft, snapshots, verify and audit.
type Commands struct{ *cli.App }

// Command returns `rota operator` and the commands below it.
func (a Commands) Command() *cobra.Command {
	raft := a.Group(&cobra.Command{Use: "raft", Short: "See and change the Raft configuration"},
		a.raftList(), a.raftTransfer(), a.raftRemove(), a.raftLeave())
	snapshots := a.Group(&cobra.Command{Use: "snapshot", Short: "Back up, inspect and restore"},
		a.snapshotSave(), a.snapshotInspect(), a.snapshotRestore())
	backups := a.Group(&cobra.Command{Use: "backup", Short: "Make, list and prove the leader's backups"},
		a.backupNow(), a.backupList(), a.backupDrill())
	upgrades := a.Group(&cobra.Command{Use: "upgrade", Short: "Upgrade node by node"}, a.upgradeCheck())
	return a.Group(&cobra.Command{Use: "operator", Short: "Operate the cluster itself"},
		raft, snapshots, backups, upgrades, a.verify(), a.audit(), a.recover(), a.debug(), a.size())
}

func (a Commands) raftList() *cobra.Command {
	return a.Impatient(&cobra.Command{
		Use:   "list-peers",
		Short: "List the servers of the Raft configuration",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			peers, err := c.Peers(ctx)
			if err != nil {
				return err
			}
			return cli.PrintAll(a.App, "peers", peers, func(p rota.RaftPeer) string { return string(p.ID) },
				[]cli.Column[rota.RaftPeer]{
					{Head: "NODE", Cell: func(p rota.RaftPeer) any { return p.ID }},
					{Head: "ADDRESS", Cell: func(p rota.RaftPeer) any { return p.Address }},
					{Head: "VOTER", Cell: func(p rota.RaftPeer) any { return p.Voter }},
					{Head: "LEADER", Cell: func(p rota.RaftPeer) any { return p.Leader }},
					{Head: "HEALTHY SINCE", Cell: func(p rota.RaftPeer) any { return ifEver(p.HealthySince) }},
					{Head: "LAST CONTACT", Cell: func(p rota.RaftPeer) any { return ifEver(p.LastContact) }},
				})
		})),
	})
}

// done prints what an order without a result of its own did: a small object,
// or the sentence.
func (a Commands) done(value any, name, format string, args ...any) error {
	return a.PrintOne(value, []string{name}, func(bool) string { return fmt.Sprintf(format+"\n", args...) })
}

// atLeader makes a call that only the leader takes: its address is asked first,
// those of --addr after it.
func (a Commands) atLeader(ctx context.Context, c *client.Client, call func(*client.Client) error) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	addrs := a.Addrs
	for _, n := range status.Nodes {
		if n.ID == status.Leader && n.API != "" {
			addrs = append([]string{n.API}, addrs...)
		}
	}
	leader, err := a.DialTo(addrs)
	if err != nil {
		return err
	}
	defer leader.Close()
	return call(leader)
}

func (a Commands) raftTransfer() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "transfer-leadership [--to ID]",
		Short: "Transfer leadership to another node",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			var leader rota.NodeID
			err := a.atLeader(ctx, c, func(c *client.Client) (err error) {
				leader, err = c.TransferLeadership(ctx, rota.NodeID(to))
				return err
			})
			if err != nil {
				return err
			}
			return a.done(map[string]any{"leader": leader}, string(leader), "leader is %s", leader)
		})),
	}
	cmd.Flags().StringVar(&to, "to", "", "`node` that shall lead (default: the leader chooses)")
	return cmd
}

func (a Commands) raftRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove-peer ID",
		Short: "Remove a node from the Raft configuration",
		Args:  cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			id := rota.NodeID(args[0])
			if err := rota.CheckID("node", id); err != nil {
				return err
			}
			if err := a.atLeader(ctx, c, func(c *client.Client) error { return c.RemovePeer(ctx, id) }); err != nil {
				return err
			}
			return a.done(map[string]any{"removed": id}, args[0], "%s is removed", id)
		})),
	}
}

func (a Commands) raftLeave() *cobra.Command {
	return &cobra.Command{
		Use:   "leave",
		Short: "Make the node at --addr transfer leadership, leave the cluster and stop",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			if len(a.Addrs) != 1 {
				return cli.Usagef("leave needs exactly one --addr: the node that leaves")
			}
			if err := c.Leave(ctx); err != nil {
				return err
			}
			return a.done(map[string]any{"left": a.Addrs[0]}, a.Addrs[0], "the node at %s leaves and stops",
				a.Addrs[0])
		})),
	}
}

func (a Commands) verify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Check every node's invariants and compare the digests at one index; exit 1 if one differs",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			v, err := c.Verify(ctx)
			if err != nil {
				return err
			}
			fillVerdict(&v)
			if err := a.PrintOne(v, verdictNames(v), func(bool) string { return VerdictTable(v) }); err != nil {
				return err
			}
			return cli.VerdictError(v)
		})),
	}
}

// fillVerdict makes empty lists lists.
func fillVerdict(v *rota.Verdict) {
	if v.Nodes == nil {
		v.Nodes = []rota.NodeVerdict{}
	}
	for i := range v.Nodes {
		if v.Nodes[i].Violations == nil {
			v.Nodes[i].Violations = []string{}
		}
	}
}

func verdictNames(v rota.Verdict) []string {
	names := make([]string, len(v.Nodes))
	for i, n := range v.Nodes {
		names[i] = string(n.ID)
	}
	return names
}

// VerdictTable shows the digest of each node.
func VerdictTable(v rota.Verdict) string {
	text := cli.RenderFacts([]cli.Fact{{Name: "index", Value: uint64(v.Index)}, {Name: "equal", Value: v.Equal}}) +
		"\n" +
		cli.RenderList([]cli.Column[rota.NodeVerdict]{
			{Head: "NODE", Cell: func(n rota.NodeVerdict) any { return n.ID }},
			{Head: "DIGEST", Cell: func(n rota.NodeVerdict) any { return digestText(n.Digest) }},
			{Head: "VIOLATIONS", Cell: func(n rota.NodeVerdict) any {
				if n.Error != "" {
					return nil
				}
				return len(n.Violations)
			}},
		}, v.Nodes, false)
	for _, n := range v.Nodes {
		if n.Error != "" {
			text += fmt.Sprintf("%s: %s\n", n.ID, cli.Clean(n.Error))
		}
		for _, violation := range n.Violations {
			text += fmt.Sprintf("%s: %s\n", n.ID, cli.Clean(violation))
		}
	}
	return text
}
