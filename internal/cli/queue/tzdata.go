package queue

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cron"
)

// TzdataCommands are the commands on the time zones of schedules.
type TzdataCommands struct{ *cli.App }

// Command returns `rota tzdata` and the commands below it.
func (a TzdataCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "tzdata", Short: "Replace the time zone data of a running cluster"}, a.install())
}

func (a TzdataCommands) install() *cobra.Command {
	var given rota.TZInstall
	cmd := &cobra.Command{
		Use:   "install [FILE] [--release R] [--released DATE] [--older]",
		Short: "Install a release of the time zone database on the whole cluster",
		Long: `Install a release of the IANA time zone database on the whole cluster: from one log entry on,
dates of schedules are calculated by it.

FILE is a zip of zones: the wheel of the PyPI package tzdata (pip download tzdata --no-deps), or
a zoneinfo.zip such as Go's. The default is the release in this binary.`,
		Example: "  rota tzdata install tzdata-2026.6-py2.py3-none-any.whl\n  rota tzdata install zoneinfo.zip --release 2026f --released 2026-10-27",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := ZonesIn(args, given)
			if err != nil {
				return err
			}
			set, err := c.InstallTZData(ctx, t)
			if err != nil {
				return err
			}
			return a.PrintOne(set, []string{set.Name()}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "release", Value: set.Release},
					{Name: "released", Value: set.Released}, {Name: "sha256", Value: set.SHA256},
					{Name: "bytes", Value: set.Bytes},
					{Name: "index", Value: uint64(set.Index)}, {Name: "installed", Value: set.Installed},
					{Name: "by", Value: set.By}})
			})
		})),
	}
	cmd.Flags().StringVar(&given.Release, "release", "", "the `release`, such as 2026f, where FILE does not contain it")
	cmd.Flags().Var((*cli.DateValue)(&given.Released), "released",
		"the date of the release, where FILE does not contain it")
	cmd.Flags().BoolVar(&given.Older, "older", false, "install a release that is older than the one in force")
	return cmd
}

// maxZoneFile bounds a file of zones: those of the last ten years have 350 to 450 KB.
const maxZoneFile = 16 << 20

// ZonesIn packs the zones of a file, or those of this binary; what was given comes before what the file contains.
func ZonesIn(args []string, given rota.TZInstall) (rota.TZInstall, error) {
	if len(args) == 0 {
		given.Release, given.Released, given.Data = cron.Release, cron.Embedded().Released(), cron.EmbeddedPacked()
		return given, nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return given, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return given, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxZoneFile {
		return given, cli.Usagef("FILE: got %s with %d bytes, want a zip of zones with at most %d", args[0],
			info.Size(), maxZoneFile)
	}
	archive, err := cron.ReadArchive(f, info.Size())
	if err != nil {
		return given, err
	}
	if given.Release == "" {
		given.Release = archive.Release
	}
	if given.Released == 0 {
		given.Released = archive.Released
	}
	switch {
	case given.Release == "":
		return given, cli.Usagef("release: %s does not contain it; pass --release, such as 2026f", args[0])
	case given.Released == 0:
		return given, cli.Usagef(
			"released: %s does not contain the date of the release; pass --released, such as 2026-10-27", args[0])
	}
	given.Data, err = cron.Pack(archive.Zones)
	return given, err
}
