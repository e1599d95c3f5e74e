package depot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
)

// suffix ends the name of every backup.
const suffix = ".snap"

// Name says what a backup is of.
type Name struct {
	Cluster rota.ClusterID `json:"cluster_id"`
	Index   rota.Index     `json:"index"`
}

// String returns the name of the backup's file: those of one cluster sort by index.
func (n Name) String() string { return fmt.Sprintf("%s-%020d%s", n.Cluster, uint64(n.Index), suffix) }

// ParseName reads what String writes; ok is false for every other name.
func ParseName(s string) (n Name, ok bool) {
	front, found := strings.CutSuffix(s, suffix)
	at := strings.LastIndexByte(front, '-')
	if !found || at < 0 {
		return n, false
	}
	index, err := strconv.ParseUint(front[at+1:], 10, 64)
	n = Name{Cluster: rota.ClusterID(front[:at]), Index: rota.Index(index)}
	return n, err == nil && rota.CheckID("cluster_id", n.Cluster) == nil && n.String() == s
}

// Backup is one that a depot holds.
type Backup struct {
	Name
	File  string    `json:"file"`
	Bytes int64     `json:"bytes"`
	Made  rota.Date `json:"made_ms"`
}

// Of returns a cluster's backups, the newest last.
func Of(all []Backup, cluster rota.ClusterID) []Backup {
	own := slices.DeleteFunc(slices.Clone(all), func(b Backup) bool { return b.Cluster != cluster })
	slices.SortFunc(own, func(a, b Backup) int { return cmp.Compare(a.Index, b.Index) })
	return own
}
