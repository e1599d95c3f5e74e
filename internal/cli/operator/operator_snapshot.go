package operator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/snapshot"
)

func (a Commands) snapshotSave() *cobra.Command {
	var stale bool
	var data string
	cmd := &cobra.Command{
		Use:   "save F [--stale --data DIR]",
		Short: "Write an online backup of the asked node's state to a new file",
		Long: `Write an online backup of the asked node's state to a new file.

With --stale it needs no leader. It uses the socket of the node with the data directory --data:
call it there, as the node's account or as root.

The event snapshotRead, or without a leader the node's log, records the caller first.`,
		Args: cobra.ExactArgs(1),
	}
	save := a.Waiting(func(ctx context.Context, c *client.Client, args []string) error {
		var opts []client.ReadOption
		if stale {
			opts = append(opts, client.Stale())
		}
		info, err := saveSnapshot(args[0], func(w io.Writer) error { return c.SaveSnapshot(ctx, w, opts...) })
		if err != nil {
			return err
		}
		if stale {
			a.Talk("the backup ends at index %d, %s: it does not hold later changes", info.Index, info.Date)
		}
		return a.printSnapshot(args[0], info)
	})
	cmd.RunE = a.Does(func(ctx context.Context, args []string) error {
		if data != "" {
			if err := a.ThroughSocket(data); err != nil {
				return err
			}
		}
		return save(ctx, args)
	})
	cmd.Flags().BoolVar(&stale, "stale", false,
		"save the node's own state without asking a leader; it may lack the latest changes")
	cmd.Flags().StringVar(&data, "data", "", "data `directory` of a node that runs here: the call goes by its socket")
	return cmd
}

// saveSnapshot streams a backup into a file. It is verified on its way, and the
// file is there whole or not at all.
func saveSnapshot(path string, stream func(io.Writer) error) (rota.SnapshotInfo, error) {
	r, w := io.Pipe()
	streamed := make(chan error, 1)
	go func() {
		err := stream(w)
		w.CloseWithError(err)
		streamed <- err
	}()
	info, err := snapshot.SaveStream(path, r)
	r.CloseWithError(io.ErrClosedPipe)
	streamErr := <-streamed
	if streamErr != nil && !errors.Is(streamErr, io.ErrClosedPipe) {
		return info, streamErr
	}
	return info, damaged(err)
}

func (a Commands) snapshotInspect() *cobra.Command {
	var f cli.BackupFlags
	cmd := &cobra.Command{
		Use:   "inspect F",
		Short: "Verify a snapshot or backup, a file or s3://bucket/key, and show its content; needs no cluster",
		Args:  cobra.ExactArgs(1),
		RunE: a.Does(func(ctx context.Context, args []string) error {
			open, done, err := f.Take(ctx, args[0])
			if err != nil {
				return err
			}
			defer done()
			info, err := snapshot.InspectAll(open)
			if err != nil {
				return damaged(fmt.Errorf("%s: %w", args[0], err))
			}
			return a.printSnapshot(args[0], info)
		}),
	}
	f.Register(cmd.Flags())
	return cmd
}

// damaged makes a refused file a failure: the command line was right.
func damaged(err error) error {
	if rota.KindOf(err) == rota.KindInvalid {
		return &cli.CodedError{Code: cli.ExitFailed, Err: err}
	}
	return err
}

func (a Commands) printSnapshot(path string, info rota.SnapshotInfo) error {
	return a.PrintOne(info, []string{path}, func(bool) string {
		return cli.RenderFacts([]cli.Fact{
			{Name: "file", Value: path}, {Name: "cluster", Value: info.ClusterID},
			{Name: "incarnation", Value: info.Incarnation},
			{Name: "index", Value: uint64(info.Index)}, {Name: "term", Value: info.Term},
			{Name: "date", Value: info.Date}, {Name: "digest", Value: info.Digest},
			{Name: "rules version", Value: info.RulesVersion}, {Name: "format", Value: info.Format},
			{Name: "records", Value: info.Records}, {Name: "bytes",
				Value: info.Bytes},
		})
	})
}

func (a Commands) snapshotRestore() *cobra.Command {
	var o recovery.RestoreOptions
	var f cli.BackupFlags
	var node string
	cmd := &cobra.Command{
		Use:   "restore F --data DIR --node ID [--raft H:P] [--cluster NAME] [--sha256 HEX] [--identity F] [--keep-tokens]",
		Short: "Restore a backup to an empty data directory",
		Long: `Restore a backup, F or s3://bucket/key, to an empty data directory. All its leases are void, and
the incarnation rises, so that no earlier lease token is given again. Access tokens are revoked
unless --keep-tokens. The node is the only member of its cluster: start it with rota server, then
let new nodes --join it.`,
		Args: cobra.ExactArgs(1),
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&o.Data, "data", "", "empty or absent `directory` that the node will use")
	cmd.Flags().StringVar(&node, "node", "", "`id` of the node, as in rota server --node")
	cmd.Flags().StringVar(&o.Cluster, "cluster", serve.DefaultCluster,
		"`name` of the cluster, as in rota server --cluster")
	cmd.Flags().BoolVar(&o.KeepTokens, "keep-tokens", false,
		"let access tokens count that did when the backup was made, revoked since or not")
	cmd.Flags().StringVar(&o.Raft, "raft", serve.DefaultRaft, "`host:port` as in rota server --raft")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Data == "" || node == "" {
			return cli.Usagef("restore wants --data and --node: where the backup goes and which node will own it")
		}
		o.Node = rota.NodeID(node)
		if err := rota.CheckID("node", o.Node); err != nil {
			return err
		}
		return a.Does(func(ctx context.Context, _ []string) error {
			open, done, err := f.Take(ctx, args[0])
			if err != nil {
				return err
			}
			defer done()
			o.Backup = open
			info, err := recovery.RestoreBackup(o)
			if err != nil {
				return damaged(fmt.Errorf("restore %s: %w", args[0], err))
			}
			a.Talk("start it with: rota server --node %s --data %s --raft %s --cluster %s --bootstrap-expect 1, and the other flags that nodes have here",
				o.Node, o.Data, o.Raft, o.Cluster)
			if !o.KeepTokens {
				a.Talk("access tokens are revoked: where the cluster had some, rota auth reset --data %s makes another once the node runs",
					o.Data)
			}
			return a.printSnapshot(args[0], info)
		})(cmd, args)
	}
	return cmd
}
