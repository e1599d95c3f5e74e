package serve

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/server"
	"github.com/rotasched/rota/internal/upgrade"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

// Version is that of this binary: main sets it to what the build said.
var Version = "dev"

// VersionInfo is what `rota version` prints.
type VersionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Dirty    bool   `json:"dirty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Formats are those that it reads and writes.
	Formats upgrade.Formats `json:"formats"`
}

// ThisVersion describes the running binary.
func ThisVersion() VersionInfo {
	v := VersionInfo{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Formats: upgrade.Formats{
			Rules: entry.RulesVersion, Node: raftstore.NodeFormat, Snapshot: snapshot.Format, History: archive.Format}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Dirty = s.Value == "true"
		}
	}
	return v
}

// build is what the nodes of this binary say of it.
func (v VersionInfo) build() server.Build {
	return server.Build{Version: v.Version, Revision: v.Revision, Go: v.Go}
}

// VersionCommands has the command `rota version`.
type VersionCommands struct{ *cli.App }

// Command returns `rota version`.
func (a VersionCommands) Command() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: a.Does(func(context.Context, []string) error {
			v := ThisVersion()
			return a.PrintOne(v, []string{v.Version}, func(bool) string {
				return cli.RenderFacts([]cli.Fact{{Name: "rota", Value: v.Version},
					{Name: "revision", Value: v.Revision}, {Name: "go", Value: v.Go},
					{Name: "platform", Value: v.Platform}, {Name: "rules version", Value: v.Formats.Rules}})
			})
		}),
	}
}
