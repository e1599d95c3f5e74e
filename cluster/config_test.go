package cluster

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestConfig_saysWhatItRefuses gives each setting a value beyond its bounds.
func TestConfig_saysWhatItRefuses(t *testing.T) {
	for _, of := range []struct {
		flag string
		set  func(*Config)
	}{
		{"--api", func(c *Config) { c.API = "nowhere" }},
		{"--data", func(c *Config) { c.Data = "" }},
		{"attestation key 0", func(c *Config) {
			c.AttestationKeys = func() []ed25519.PublicKey { return []ed25519.PublicKey{[]byte("short")} }
		}},
		{"--archive-retention", func(c *Config) { c.ArchiveRetention = time.Second }},
		{"--archive-max-bytes", func(c *Config) { c.ArchiveMaxBytes = 1 }},
		{"--snapshot-entries", func(c *Config) { c.SnapshotEntries = SnapshotEntriesLeast - 1 }},
		{"--snapshot-entries", func(c *Config) { c.SnapshotEntries = MaxSnapshotEntries + 1 }},
		{"--snapshot-every", func(c *Config) { c.SnapshotEvery = time.Millisecond }},
		{"--snapshot-every", func(c *Config) { c.SnapshotEvery = 2 * time.Hour }},
		{"--bootstrap-expect", func(c *Config) { c.BootstrapExpect = -1 }},
		{"--auto-degrade-commit", func(c *Config) { c.AutoDegradeCommitMs = -1 }},
		{"--auto-degrade-usage", func(c *Config) { c.AutoDegradeUsagePermille = 1001 }},
		{"--disk-critical", func(c *Config) { c.DiskLow, c.DiskCritical = 5, 10 }},
	} {
		c := Config{Node: "n1", Cluster: "c", API: "127.0.0.1:1", Raft: "127.0.0.1:2", Gossip: "127.0.0.1:3", Data: "d"}
		if err := c.check(); err != nil {
			t.Fatalf("a good configuration: %v", err)
		}
		of.set(&c)
		if err := c.check(); rota.KindOf(err) != rota.KindInvalid || !strings.Contains(err.Error(), of.flag) {
			t.Errorf("%s beyond its bounds: %v", of.flag, err)
		}
	}
}

// TestConfig_snapshots: the log kept after a snapshot is long enough, however rarely one is written.
func TestConfig_snapshots(t *testing.T) {
	for _, of := range []struct{ entries, trailing uint64 }{{0, 24_576}, {64, 24_576}, {8_192, 24_576},
		{100_000, 300_000}} {
		c := Config{Node: "n1", Cluster: "c", API: "127.0.0.1:1", Raft: "127.0.0.1:2", Gossip: "127.0.0.1:3", Data: "d",
			SnapshotEntries: of.entries, SnapshotEvery: time.Minute}
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		if c.Timing.TrailingLogs != of.trailing || c.Timing.SnapshotInterval != time.Minute {
			t.Errorf("%d entries a snapshot: %+v", of.entries, c.Timing)
		}
		if of.entries != 0 && c.Timing.SnapshotThreshold != of.entries {
			t.Errorf("%d entries a snapshot: %+v", of.entries, c.Timing)
		}
	}
}
