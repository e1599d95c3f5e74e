package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

// minDisk is the free space in bytes without which a node cannot even record its start.
const minDisk = 1 << 20

// Check returns every fault that would keep a node from starting with cfg, or from accepting work afterwards, as far as
// this machine alone can determine. It does not ask other nodes, and leaves ids and addresses to the caller. It starts
// nothing and changes nothing in the data directory, whose log and snapshots it reads completely unless a process has
// it open.
func Check(cfg Config) (look raftstore.Look, faults []error) {
	faults = cfg.settingFaults()
	cfg.defaults()
	if cfg.GossipKeyFile != "" {
		if err := gossip.CheckKeys(cfg.GossipKeyFile); err != nil {
			faults = append(faults, err)
		}
	}
	if cfg.Data == "" || rota.CheckID("node", cfg.Node) != nil {
		return look, faults
	}
	look, wrong := raftstore.LookAt(cfg.Data, cfg.Node, cfg.Cluster, cfg.AdoptData)
	faults = append(faults, wrong...)
	if err := cfg.checkRoom(); err != nil {
		faults = append(faults, err)
	}
	if look.Holder != "" || look.Unusable {
		return look, faults
	}
	if (look.Fresh || look.Absent) && len(wrong) == 0 && cfg.foundsNothing() {
		faults = append(faults, foundsNothing(cfg.Data))
	}
	if look.Absent {
		return look, faults
	}
	if err := history.LookAt(history.FileOptions{Path: filepath.Join(cfg.Data, archive.FileName),
		Cluster: look.ClusterID, Fresh: look.Fresh}); err != nil {
		faults = append(faults, err)
	}
	if err := cfg.checkState(look.State); err != nil {
		faults = append(faults, err)
	}
	if look.Report != nil && !look.Fresh && !cfg.AdoptData {
		_, refusal := raftstore.JudgeMarks(cfg.Data, cfg.Node, look.ClusterID, look.Identity, look.Report.Mark(),
			filepath.Join(cfg.Data, raftstore.MarkFile), cfg.MarkFile)
		if refusal != nil {
			faults = append(faults, refusal)
		}
	}
	return look, faults
}

// checkState rejects the newest snapshot's state if this binary cannot read it.
func (c *Config) checkState(path string) error {
	if path == "" {
		return nil
	}
	info, err := snapshot.InspectFile(path)
	if err == nil {
		_, err = fsm.NewLoaderKnowing(info, c.knows)
	}
	if err != nil {
		return fmt.Errorf("the newest snapshot, %s, is refused: %w", path, err)
	}
	return nil
}

// checkRoom rejects a disk that is full, or so full that the node would accept no work.
func (c *Config) checkRoom() error {
	path := c.Data
	for _, err := os.Stat(path); err != nil && path != filepath.Dir(path); _, err = os.Stat(path) {
		path = filepath.Dir(path) // where the directory will be created
	}
	free, total, err := c.freeSpace(path)
	if err != nil {
		return nil // unknown is not full: faults of the directory are already reported
	}
	low, critical := mustBeFree(total, percent(c.DiskLow), maxDiskLow), mustBeFree(total, percent(c.DiskCritical),
		maxDiskCritical)
	level := levelOf(diskRoomy, free, low, critical)
	if level == diskRoomy && free >= minDisk {
		return nil
	}
	effect := "The node does not start. Free space there, or enlarge the disk"
	if free >= minDisk {
		effect = diskEffect(level)
	}
	return rota.Refusef(rota.KindExhausted, "data",
		"data directory %s has %d of %d MiB free (--disk-low %d, --disk-critical %d). %s",
		c.Data, free>>20, total>>20, c.DiskLow, c.DiskCritical, effect)
}
