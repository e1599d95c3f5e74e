package operator

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/depot"
)

func (a Commands) backupNow() *cobra.Command {
	return &cobra.Command{
		Use:   "now",
		Short: "Make the leader store a backup now, in its --backup-to",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Waiting(func(ctx context.Context, c *client.Client, _ []string) error {
			var b rota.StoredBackup
			err := a.atLeader(ctx, c, func(c *client.Client) (err error) {
				b, err = c.StoreBackup(ctx)
				return err
			})
			if err != nil {
				return err
			}
			return a.PrintOne(b, []string{b.Name}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "backup", Value: b.Name},
					{Name: "index", Value: uint64(b.Index)}, {Name: "date", Value: b.Date},
					{Name: "sha256", Value: b.SHA256}, {Name: "bytes", Value: b.Bytes}})
			})
		})),
	}
}

func (a Commands) backupList() *cobra.Command {
	var store depot.Options
	cmd := &cobra.Command{
		Use:   "list --from PLACE",
		Short: "List the backups in a directory or bucket; needs no cluster",
		Args:  cobra.NoArgs,
	}
	fromFlags(cmd.Flags(), &store)
	cli.StoreFlags(cmd.Flags(), &store)
	cmd.RunE = a.Does(func(ctx context.Context, _ []string) error {
		_, all, err := backupsIn(ctx, store)
		if err != nil {
			return err
		}
		return a.PrintOne(all, backupFiles(all), func(bool) string {
			return cli.RenderList([]cli.Column[depot.Backup]{
				{Head: "CLUSTER", Cell: func(b depot.Backup) any { return b.Cluster }},
				{Head: "INDEX", Wide: true, Cell: func(b depot.Backup) any { return uint64(b.Index) }},
				{Head: "MADE", Cell: func(b depot.Backup) any { return b.Made }},
				{Head: "BYTES", Wide: true, Cell: func(b depot.Backup) any { return b.Bytes }},
				{Head: "FILE", Cell: func(b depot.Backup) any { return b.File }},
			}, all, false)
		})
	})
	return cmd
}

func backupFiles(all []depot.Backup) (files []string) {
	for _, b := range all {
		files = append(files, b.File)
	}
	return files
}

func fromFlags(flags *pflag.FlagSet, o *depot.Options) {
	flags.StringVar(&o.To, "from", "",
		"`location` that servers have as --backup-to: a directory, or s3://bucket/prefix")
}

func backupsIn(ctx context.Context, from depot.Options) (*depot.Depot, []depot.Backup, error) {
	if from.To == "" {
		return nil, nil, cli.Usagef("--from is missing: the directory or s3://bucket/prefix with the backups")
	}
	d, err := depot.Open(from)
	if err != nil {
		return nil, nil, cli.AsFailure(err)
	}
	all, err := d.List(ctx)
	if err != nil {
		return nil, nil, cli.AsFailure(err)
	}
	return d, all, nil
}

func (a Commands) backupDrill() *cobra.Command {
	var f cli.BackupFlags
	var cluster string
	cmd := &cobra.Command{
		Use:   "drill --from PLACE [--cluster-id ID] [--identity F]",
		Short: "Prove that the newest backup can be restored; exit 1 if not; needs no cluster",
		Long: `Prove that the newest backup of a directory or bucket can be restored: load it as a restore would,
check its invariants and digest, and replay its log. Nothing is kept. Exit 1 if it is damaged,
differs from --sha256, is not of the cluster and index in its name, or a round differs.`,
		Example: "  rota operator backup drill --from /mnt/backups\n  rota operator backup drill --from s3://backups/rota --identity ~/rota.key",
		Args:    cobra.NoArgs,
	}
	fromFlags(cmd.Flags(), &f.Store)
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&cluster, "cluster-id", "",
		"`id` of the cluster whose backup is meant, where several clusters' are there")
	cmd.RunE = a.Does(func(ctx context.Context, _ []string) error {
		d, all, err := backupsIn(ctx, f.Store)
		if err != nil {
			return err
		}
		newest, err := newestOf(all, rota.ClusterID(cluster))
		if err != nil {
			return cli.AsFailure(err)
		}
		open, done, err := f.Fetch(ctx, d, newest.Name)
		if err != nil {
			return err
		}
		defer done()
		info, err := recovery.CheckBackup(open)
		if err != nil {
			return damaged(fmt.Errorf("%s: %w", newest.File, err))
		}
		if info.ClusterID != newest.Cluster || info.Index != newest.Index {
			return cli.Failf("%s holds cluster %s at index %d, unlike its name", newest.File, info.ClusterID,
				info.Index)
		}
		a.Talk("%s is whole", newest.File)
		report, err := audit.Backup(ctx, open, slog.New(slog.NewTextHandler(a.Stderr, nil)))
		if rota.KindOf(err) == rota.KindOutOfRange {
			return a.printSnapshot(newest.File, info) // it carries no log
		}
		if err != nil {
			return cli.AsFailure(err)
		}
		return a.printAudit(report)
	})
	return cmd
}

// newestOf returns the newest backup of a cluster, of the only one where none is named.
func newestOf(all []depot.Backup, cluster rota.ClusterID) (depot.Backup, error) {
	if cluster == "" && len(all) > 0 {
		cluster = all[0].Cluster
		if len(depot.Of(all, cluster)) < len(all) {
			return depot.Backup{}, rota.Refusef(rota.KindInvalid, "cluster-id",
				"there are backups of several clusters: name one with --cluster-id")
		}
	}
	own := depot.Of(all, cluster)
	if len(own) == 0 {
		return depot.Backup{}, rota.Refusef(rota.KindNotFound, "backup", "the cluster has no backup")
	}
	return own[len(own)-1], nil
}
