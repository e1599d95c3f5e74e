package raftstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rotasched/rota"
)

// MarkFile is the name of the file with the marks in a data directory.
const MarkFile = "marks.json"

const (
	markFormat  = 1
	markFileMax = 64 << 10
)

// Mark is the position that a node's raft had reached: its current term, and an entry that it held in that term. A
// node's marks only grow, ordered by term first, unless its disk goes back in time: a term is never forgotten, applied
// entries are never cut, and entries acknowledged to a leader remain for as long as the term does.
type Mark struct {
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// Less reports whether m is older than other.
func (m Mark) Less(other Mark) bool {
	return m.Term < other.Term || m.Term == other.Term && m.Index < other.Index
}

// Marks holds a node's own mark and those it remembers of other nodes.
type Marks struct {
	Format    int                  `json:"format"`
	ClusterID rota.ClusterID       `json:"cluster_id"`
	Identity  string               `json:"identity"`
	Own       Mark                 `json:"own"`
	Peers     map[rota.NodeID]Mark `json:"peers,omitempty"`
	// Sum is the CRC32C of the marks without this field, in 8 hex digits.
	Sum string `json:"sum"`
}

// ReadMarks returns the marks in a file, the zero value if there is no file. A damaged file is an error: it proves
// nothing, and does not prevent a start.
func ReadMarks(path string) (m Marks, err error) {
	data, err := readSmallFile(path, markFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil && (m.Format != markFormat || m.Sum != recordSum(data)) {
		err = errors.New("its format or its checksum is wrong")
	}
	if err != nil {
		return Marks{}, fmt.Errorf("read %s: %w", path, err)
	}
	return m, nil
}

// WriteMarks durably replaces the marks in a file.
func WriteMarks(path string, m Marks) error {
	m.Format, m.Sum = markFormat, ""
	plain, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	m.Sum = recordSum(plain)
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return replaceFile(path, append(data, '\n'))
}

// Mark returns the mark of the raft state that the report describes.
func (r *Report) Mark() Mark { return Mark{Term: r.Term, Index: max(r.LastIndex, r.SnapshotIndex)} }

// JudgeMarks rejects raft state that is older than a mark file states, either its own or the one kept on another disk.
// where is the data directory; cluster and identity come from its node.json.
func JudgeMarks(where string, node rota.NodeID, cluster rota.ClusterID, identity string, found Mark,
	files ...string) (unread []error, refusal error) {
	for _, path := range files {
		if path == "" {
			continue
		}
		kept, err := ReadMarks(path)
		switch {
		case err != nil:
			unread = append(unread, err)
		case kept.ClusterID != cluster || kept.Identity != identity: // of another cluster or directory
		case found.Less(kept.Own):
			return unread, WentBack("data directory "+where, node, found, kept.Own, "according to "+path)
		}
	}
	return unread, nil
}

// WentBack returns the error for a data directory, named by what, whose disk went back in time.
func WentBack(what string, node rota.NodeID, found, kept Mark, by string) error {
	return rota.Refusef(rota.KindConflict, "data", "%s is behind what node %s acknowledged: its log ends "+
		"at entry %d in term %d, but had come to entry %d in term %d, %s. Its disk, or a part of it, went back in "+
		"time, for example because a snapshot of a volume or machine was restored. The disk counts as lost. "+
		"Start on the newest disk, or move this one away and replace the node by one with a NEW node id",
		what, node, found.Index, found.Term, kept.Index, kept.Term, by)
}
