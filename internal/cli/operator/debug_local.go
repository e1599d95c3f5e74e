package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/internal/cli"
)

// maxDebugFile bounds a settings file, debugNames the files of a data directory that are listed.
const (
	maxDebugFile = 1 << 20
	debugNames   = 2_000
)

// debugSettings adds a node's settings: those that `rota server` has, and the names alone of all
// else. A setting that wants a file shows it only where it is one: a key may stand there by mistake.
func (b *bundle) debugSettings(root *cobra.Command, path string) error {
	const name = "settings.json"
	text, err := cli.ReadSmall(path, maxDebugFile)
	if err != nil {
		b.miss(name, err.Error())
		return nil
	}
	var given map[string]any
	if err := yaml.Unmarshal(text, &given); err != nil {
		b.miss(name, path+" is not YAML: it is left out, as it may hold anything") // yaml's error quotes it
		return nil
	}
	server, _, err := root.Find([]string{"server"})
	if err != nil {
		return err
	}
	shown := make(map[string]string)
	for key, value := range given {
		flag := server.Flags().Lookup(key)
		if flag == nil {
			flag = server.InheritedFlags().Lookup(key)
		}
		shown[key] = SettingShown(flag, fmt.Sprint(value))
	}
	return b.addJSON(name, map[string]any{"file": path, "settings": shown})
}

// SettingShown is a setting's value as it may be shown.
func SettingShown(flag *pflag.Flag, value string) string {
	if flag == nil {
		return "(no setting of rota server: its value is not shown)"
	}
	kind, _ := pflag.UnquoteUsage(flag)
	if kind != "file" || value == "" {
		return value
	}
	if info, err := os.Stat(value); err == nil {
		return fmt.Sprintf("%s (mode %04o)", value, info.Mode().Perm())
	}
	return fmt.Sprintf("(%d characters that name no file here)", len(value))
}

// debugData adds what a data directory holds, of which nothing is written. Of a node that runs
// that is the names and sizes of files.
func (b *bundle) debugData(path string) error {
	node, err := b.debugNode(path)
	if err != nil {
		return err
	}
	look, faults := raftstore.LookAt(path, node.Node, node.Cluster, false)
	texts := []string{}
	for _, fault := range faults {
		texts = append(texts, fault.Error())
	}
	free, total, err := raftstore.FreeSpace(path)
	if err != nil {
		texts = append(texts, err.Error())
	}
	names, err := listed(path)
	if err != nil {
		texts = append(texts, err.Error())
	}
	err = b.addJSON("data.json", map[string]any{"directory": path, "holder": look.Holder, "fresh": look.Fresh,
		"log": look.Report, "faults": texts, "disk_free_bytes": free, "disk_bytes": total, "files": names})
	if err != nil {
		return err
	}
	denied, cut, err := TailOf(filepath.Join(path, "denied.log"), maxDebugFile)
	if err != nil {
		b.miss("logs/denied.log", err.Error())
		return nil
	}
	return b.addTail("logs/denied.log", denied, cut)
}

// nodeShown is what is shown of node.json: its identity, which other nodes know the directory by, is not.
type nodeShown struct {
	Format    int            `json:"format"`
	Node      rota.NodeID    `json:"node"`
	Cluster   string         `json:"cluster_name"`
	ClusterID rota.ClusterID `json:"cluster_id"`
	Starts    uint64         `json:"starts"`
	Adoptions uint64         `json:"adoptions"`
	Rebuild   any            `json:"rebuild,omitempty"`
	Recovery  any            `json:"recovery,omitempty"`
}

// debugNode adds node.json.
func (b *bundle) debugNode(path string) (node nodeShown, err error) {
	const name = "node.json"
	text, err := cli.ReadSmall(filepath.Join(path, name), maxDebugFile)
	if err == nil {
		err = json.Unmarshal(text, &node)
	}
	if err != nil {
		b.miss(name, err.Error())
		return node, nil
	}
	return node, b.addJSON(name, node)
}

// listedFile is a file of a data directory.
type listedFile struct {
	Name    string    `json:"name"`
	Bytes   int64     `json:"bytes"`
	Changed time.Time `json:"changed"`
}

// listed returns the files of a directory.
func listed(dir string) (all []listedFile, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if len(all) == debugNames {
			return io.ErrShortBuffer
		}
		info, err := entry.Info()
		if err == nil {
			all = append(all, listedFile{strings.TrimPrefix(path, dir+string(filepath.Separator)), info.Size(),
				info.ModTime().UTC()})
		}
		return err
	})
	slices.SortFunc(all, func(a, b listedFile) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// debugAudit adds what a replay of the log in a data directory finds. The log itself is not added: its
// entries hold payloads, which its checksums and digests cover.
func (b *bundle) debugAudit(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, debugAudit)
	defer cancel()
	report, err := audit.Data(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		b.miss("audit.json", fmt.Sprintf(
			"%v; of a node that runs: rota operator snapshot save F and rota operator audit --backup F",
			cli.OutOfTime(ctx, err)))
		return nil
	}
	return b.addJSON("audit.json", report)
}
