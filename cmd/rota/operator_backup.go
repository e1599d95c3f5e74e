package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/secret"
	"github.com/rotasched/rota/snapshot"
)

func (a operatorCommands) backupNow() *cobra.Command {
	return &cobra.Command{
		Use:   "now",
		Short: "Have the leader store a backup at once where its --backup-to says",
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
				return cli.RenderFacts([]cli.Fact{{Name: "backup", Value: b.Name}, {Name: "index", Value: uint64(b.Index)}, {Name: "date", Value: b.Date}, {Name: "sha256", Value: b.SHA256}, {Name: "bytes", Value: b.Bytes}})
			})
		})),
	}
}

func (a operatorCommands) backupList() *cobra.Command {
	var store depot.Options
	cmd := &cobra.Command{
		Use:   "list --from PLACE",
		Short: "List the backups in a directory or bucket; needs no cluster",
		Args:  cobra.NoArgs,
	}
	fromFlags(cmd.Flags(), &store)
	storeFlags(cmd.Flags(), &store)
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
	flags.StringVar(&o.To, "from", "", "`place` that servers have as --backup-to: a directory, or s3://bucket/prefix")
}

func backupsIn(ctx context.Context, from depot.Options) (*depot.Depot, []depot.Backup, error) {
	if from.To == "" {
		return nil, nil, cli.Usagef("--from is missing: the directory or s3://bucket/prefix with the backups")
	}
	d, err := depot.Open(from)
	if err != nil {
		return nil, nil, asFailure(err)
	}
	all, err := d.List(ctx)
	if err != nil {
		return nil, nil, asFailure(err)
	}
	return d, all, nil
}

func (a operatorCommands) backupDrill() *cobra.Command {
	var f backupFlags
	var cluster string
	cmd := &cobra.Command{
		Use:   "drill --from PLACE [--cluster-id ID] [--identity F]",
		Short: "Prove that the newest backup can be restored; exit 1 where it cannot; needs no cluster",
		Long: `Fetch the newest backup of a directory or bucket, decrypt it, load it as a restore would, check
every invariant of its state and its digest, and replay the log that it carries. Nothing stays
but where it is. It is exit 1 where the file is damaged, is not what --sha256 says or not of the
cluster and index that its name says, or where a round differs.`,
		Example: "  rota operator backup drill --from /mnt/backups\n  rota operator backup drill --from s3://backups/rota --identity ~/rota.key",
		Args:    cobra.NoArgs,
	}
	fromFlags(cmd.Flags(), &f.store)
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&cluster, "cluster-id", "", "`id` of the cluster whose backup is meant, where several clusters' are there")
	cmd.RunE = a.Does(func(ctx context.Context, _ []string) error {
		d, all, err := backupsIn(ctx, f.store)
		if err != nil {
			return err
		}
		newest, err := newestOf(all, rota.ClusterID(cluster))
		if err != nil {
			return asFailure(err)
		}
		open, done, err := f.fetch(ctx, d, newest.Name)
		if err != nil {
			return err
		}
		defer done()
		info, err := recovery.CheckBackup(open)
		if err != nil {
			return damaged(fmt.Errorf("%s: %w", newest.File, err))
		}
		if info.ClusterID != newest.Cluster || info.Index != newest.Index {
			return cli.Failf("%s holds cluster %s at index %d: it is not what its name says", newest.File, info.ClusterID, info.Index)
		}
		a.Talk("%s is whole", newest.File)
		report, err := audit.Backup(ctx, open, slog.New(slog.NewTextHandler(a.Stderr, nil)))
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

// maxIdentityFile bounds the file of --identity: some hundred identities.
const maxIdentityFile = 64 << 10

// storeFlags register how an S3 store is reached.
func storeFlags(flags *pflag.FlagSet, o *depot.Options) {
	flags.StringVar(&o.Endpoint, "backup-endpoint", "", "`URL` of the S3 store, such as https://minio.example.org:9000; "+
		"by default AWS_ENDPOINT_URL_S3, then Amazon's")
	flags.StringVar(&o.Region, "backup-region", "", "`region` of the bucket; by default AWS_REGION, then what the store says")
}

// backupFlags say how a command gets at a backup that somebody stored.
type backupFlags struct {
	store            depot.Options
	identity, sha256 string
}

func (f *backupFlags) register(flags *pflag.FlagSet) {
	storeFlags(flags, &f.store)
	f.registerIdentity(flags)
	flags.StringVar(&f.sha256, "sha256", "", "`hex` that the file must have, as sha256sum gave it when the backup was made")
}

func (f *backupFlags) registerIdentity(flags *pflag.FlagSet) {
	flags.StringVar(&f.identity, "identity", "", "`file` with the age identity that opens an encrypted backup")
}

// opener opens a file, decrypted where it is encrypted.
func (f *backupFlags) opener(file string) (snapshot.Opener, error) {
	var with depot.Identities
	if f.identity != "" {
		text, err := secret.ReadFile(f.identity, maxIdentityFile)
		if err != nil {
			return nil, cli.Failf("read --identity: %w", err)
		}
		if with, err = depot.ParseIdentities(text); err != nil {
			return nil, cli.Failf("read --identity %s: %w", f.identity, err)
		}
	}
	return func() (io.ReadCloser, error) {
		stored, err := snapshot.OpenFile(file)
		if err != nil {
			return nil, err
		}
		r, err := depot.Unseal(stored, with)
		if err != nil {
			return nil, errors.Join(err, stored.Close())
		}
		return struct {
			io.Reader
			io.Closer
		}{r, stored}, nil
	}, nil
}

// take opens the backup at a path or an address. What is in a bucket is copied here first, as
// it is stored; done removes the copy.
func (f *backupFlags) take(ctx context.Context, at string) (open snapshot.Opener, done func(), err error) {
	if !depot.InBucket(at) {
		return f.taken(at, func() {})
	}
	to, file := path.Split(at)
	name, ok := depot.ParseName(file)
	if !ok {
		return nil, nil, cli.Usagef("%s names no backup: list them with rota operator backup list --from %s", at, to)
	}
	options := f.store
	options.To = to
	d, err := depot.Open(options)
	if err != nil {
		return nil, nil, asFailure(err)
	}
	return f.fetch(ctx, d, name)
}

// fetch copies a backup here, so that what is checked cannot change meanwhile, and opens it.
func (f *backupFlags) fetch(ctx context.Context, d *depot.Depot, name depot.Name) (open snapshot.Opener, done func(), err error) {
	here, err := os.CreateTemp("", "rota-backup-*")
	if err != nil {
		return nil, nil, cli.Failf("copy the backup here: %w", err)
	}
	done = func() { _ = os.Remove(here.Name()) }
	stored, err := d.Fetch(ctx, name)
	if err == nil {
		_, err = io.Copy(here, stored)
		err = errors.Join(err, stored.Close())
	}
	if err = errors.Join(err, here.Close()); err != nil {
		done()
		return nil, nil, cli.Failf("fetch the backup (through %s; TMPDIR names another place): %w", here.Name(), err)
	}
	return f.taken(here.Name(), done)
}

// taken opens a file once it has the SHA-256 that is wanted.
func (f *backupFlags) taken(file string, done func()) (open snapshot.Opener, _ func(), err error) {
	defer func() {
		if err != nil {
			done()
		}
	}()
	if f.sha256 != "" {
		if err := f.compare(file); err != nil {
			return nil, nil, err
		}
	}
	open, err = f.opener(file)
	return open, done, err
}

// compare refuses a file that has another SHA-256 than --sha256 says.
func (f *backupFlags) compare(file string) error {
	var want rota.Hex
	if err := want.UnmarshalText([]byte(strings.TrimSpace(f.sha256))); err != nil || len(want) != sha256.Size {
		return cli.Usagef("--sha256 is %q: %d hexadecimal digits are wanted", f.sha256, 2*sha256.Size)
	}
	r, err := snapshot.OpenFile(file)
	if err != nil {
		return asFailure(err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return cli.Failf("read %s: %w", file, err)
	}
	if got := h.Sum(nil); !bytes.Equal(got, want) {
		return cli.Failf("it is another file: its SHA-256 is %s, --sha256 says %s", rota.Hex(got), want)
	}
	return nil
}
