package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/depot"
)

func (a operatorCommands) backupList() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "list --from DIR",
		Short: "List the backups in a directory; needs no cluster",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "", "`directory` that servers have as --backup-to")
	cmd.RunE = a.does(func(context.Context, []string) error {
		all, err := backupsIn(from)
		if err != nil {
			return err
		}
		return a.printOne(all, backupFiles(all), func(bool) string {
			return renderList([]column[depot.Backup]{
				{"CLUSTER", false, 0, func(b depot.Backup) any { return b.Cluster }},
				{"INDEX", true, 0, func(b depot.Backup) any { return uint64(b.Index) }},
				{"MADE", false, 0, func(b depot.Backup) any { return b.Made }},
				{"BYTES", true, 0, func(b depot.Backup) any { return b.Bytes }},
				{"FILE", false, 0, func(b depot.Backup) any { return b.File }},
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

func backupsIn(from string) ([]depot.Backup, error) {
	if from == "" {
		return nil, usagef("--from is missing: the directory with the backups")
	}
	d, err := depot.Open(from)
	if err != nil {
		return nil, asFailure(err)
	}
	all, err := d.List()
	if err != nil {
		return nil, asFailure(err)
	}
	return all, nil
}

func (a operatorCommands) backupDrill() *cobra.Command {
	var from, cluster string
	cmd := &cobra.Command{
		Use:   "drill --from DIR [--cluster-id ID]",
		Short: "Prove that the newest backup can be restored; exit 1 where it cannot; needs no cluster",
		Long: `Load the newest backup of a directory as a restore would, check every invariant of its state
and its digest, and replay the log that it carries. Nothing is written. It is exit 1 where the
file is damaged or is not of the cluster and index that its name says, or where a round differs.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "", "`directory` that servers have as --backup-to")
	cmd.Flags().StringVar(&cluster, "cluster-id", "", "`id` of the cluster whose backup is meant, where the directory has several clusters'")
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		all, err := backupsIn(from)
		if err != nil {
			return err
		}
		newest, err := newestOf(all, rota.ClusterID(cluster))
		if err != nil {
			return asFailure(err)
		}
		info, err := recovery.CheckBackup(newest.File)
		if err != nil {
			return damaged(err)
		}
		if info.ClusterID != newest.Cluster || info.Index != newest.Index {
			return failf("%s holds cluster %s at index %d: it is not what its name says", newest.File, info.ClusterID, info.Index)
		}
		a.talk("%s is whole", newest.File)
		report, err := audit.Backup(ctx, newest.File, slog.New(slog.NewTextHandler(a.stderr, nil)))
		if rota.KindOf(err) == rota.KindOutOfRange {
			return a.printSnapshot(newest.File, info) // it carries no log
		}
		if err != nil {
			return asFailure(err)
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
			return depot.Backup{}, rota.Refusef(rota.KindInvalid, "cluster-id", "there are backups of several clusters: name one with --cluster-id")
		}
	}
	own := depot.Of(all, cluster)
	if len(own) == 0 {
		return depot.Backup{}, rota.Refusef(rota.KindNotFound, "backup", "there is no backup of the cluster")
	}
	return own[len(own)-1], nil
}
