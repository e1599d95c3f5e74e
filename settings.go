package rota

import (
	"strconv"
	"strings"
)

// The bounds of state_bytes_max. With what its rows take beside their bytes a node of 4 GiB
// holds the default; less than the least leaves no cluster that is of use, and shares of the
// most are far from overflow.
const (
	DefaultStateBytesMax = 1 << 30
	LeastStateBytes      = 1 << 20
	MaxStateBytes        = 1 << 50
)

// ClusterSettings are what `cluster set` changes.
type ClusterSettings struct {
	// StateBytesMax bounds the bytes of jobs, workflows, workers, queues and tenants
	// (SPEC §4.14).
	StateBytesMax int64 `json:"state_bytes_max"`
}

// clusterKeys are the keys of the cluster's settings, in the order in which they are shown.
var clusterKeys = []string{"state_bytes_max"}

// ClusterKeys lists the keys that ClusterSettings.Set takes.
func ClusterKeys() []string { return append([]string(nil), clusterKeys...) }

// DefaultClusterSettings are those of a cluster that nobody set.
func DefaultClusterSettings() ClusterSettings {
	return ClusterSettings{StateBytesMax: DefaultStateBytesMax}
}

// Set changes one key: state_bytes_max=2147483648 or 2GiB. It refuses unknown keys and values
// out of range, naming key, value and range, and then changes nothing.
func (c *ClusterSettings) Set(s Setting) error {
	key := strings.ToLower(strings.TrimSpace(s.Key))
	if key != "state_bytes_max" {
		return unknown("key", "cluster key", s.Key, clusterKeys)
	}
	v, err := parseBytes(key, s.Value, LeastStateBytes, MaxStateBytes)
	if err != nil {
		return err
	}
	c.StateBytesMax = v
	return nil
}

// parseBytes reads a number of bytes, with a unit or without, of least to most.
func parseBytes(key, text string, least, most int64) (int64, error) {
	number, shift := strings.TrimSpace(text), 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if rest, ok := strings.CutSuffix(number, unit); ok {
			number, shift = strings.TrimSpace(rest), 10*(i+1)
		}
	}
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, Refusef(KindInvalid, key, "%s=%q is refused: a whole number of bytes is wanted, or one such as 512MiB", key, text)
	}
	if v < 0 || v > most>>shift || v<<shift < least {
		return 0, Refusef(KindInvalid, key, "%s=%q is refused: %d to %d is wanted", key, text, least, most)
	}
	return v << shift, nil
}
