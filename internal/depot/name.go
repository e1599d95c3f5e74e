package depot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
)

// suffix ends the name of every backup; sealedSuffix follows it in that of a sealed one.
const suffix, sealedSuffix = ".snap", ".age"

// Name identifies a backup.
type Name struct {
	Cluster rota.ClusterID `json:"cluster_id"`
	Index   rota.Index     `json:"index"`
	// Sealed means that only an identity opens it.
	Sealed bool `json:"sealed"`
}

// String returns the name of the backup's file: those of one cluster sort by index.
func (n Name) String() string {
	end := suffix
	if n.Sealed {
		end += sealedSuffix
	}
	return fmt.Sprintf("%s-%020d%s", n.Cluster, uint64(n.Index), end)
}

// ParseName parses the output of String; ok is false for every other name.
func ParseName(s string) (n Name, ok bool) {
	front, sealed := strings.CutSuffix(s, sealedSuffix)
	front, found := strings.CutSuffix(front, suffix)
	at := strings.LastIndexByte(front, '-')
	if !found || at < 0 {
		return n, false
	}
	index, err := strconv.ParseUint(front[at+1:], 10, 64)
	n = Name{Cluster: rota.ClusterID(front[:at]), Index: rota.Index(index), Sealed: sealed}
	return n, err == nil && rota.CheckID("cluster_id", n.Cluster) == nil && n.String() == s
}

// Backup is a backup in a depot.
type Backup struct {
	Name
	// File is its path, or its address in a bucket.
	File  string    `json:"file"`
	Bytes int64     `json:"bytes"`
	Made  rota.Date `json:"made_ms"`
	// SHA256 is of its bytes as stored; only Put sets it.
	SHA256 rota.Hex `json:"sha256,omitempty"`
}

// Of returns a cluster's backups, the newest last.
func Of(all []Backup, cluster rota.ClusterID) []Backup {
	own := slices.DeleteFunc(slices.Clone(all), func(b Backup) bool { return b.Cluster != cluster })
	slices.SortStableFunc(own, func(a, b Backup) int { return cmp.Compare(a.Index, b.Index) })
	return own
}
