package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"
)

// LogOf is one stopped node's log, compared with those of the nodes before it.
type LogOf struct {
	Node  string `json:"node"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Compared is the number of committed entries that another node has, too.
	Compared int `json:"compared"`
	// Differs describes entries that it has with other contents; the first few.
	Differs []string `json:"differs,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// checkLogs requires the copies of the log to agree on every committed index: state machines may agree by luck where
// the differing entries change nothing today.
func checkLogs(v *view) (found []Anomaly) {
	compared := 0
	for i := range v.Logs {
		l := &v.Logs[i]
		compared += l.Compared
		if l.Error != "" {
			found = append(found, Anomaly{IDs: []string{l.Node}, Text: "log of node " + l.Node + ": " + l.Error})
		}
		for _, text := range l.Differs {
			found = append(found, Anomaly{IDs: []string{l.Node}, Text: "log of node " + l.Node + ": " + text})
		}
	}
	if v.Logs == nil { // readLogs leaves a line for each node that it could not read
		v.undecided = append(v.undecided, "logs: none was read, as no index is known to be committed")
	} else if len(v.Logs) < v.Nodes {
		found = append(found, Anomaly{Text: fmt.Sprintf("the logs of %d nodes were read, of %d they should",
			len(v.Logs), v.Nodes)})
	}
	v.figures["log_entries_compared"] = compared
	return found
}

// NodeLog holds checksums of a node's entries, by index.
type NodeLog struct {
	node        string
	first, last uint64
	sums        map[uint64]uint64
	err         error
}

// ReadLog reads the files of a log themselves, according to docs/reference/formats.md and not with the code that wrote
// them. Term, type, extensions and data of an entry are the same on every node.
func ReadLog(node, dir string) (l NodeLog) {
	l = NodeLog{node: node, sums: make(map[uint64]uint64)}
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if l.err = err; err == nil && len(names) == 0 {
		l.err = errors.New("it holds no log")
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil || len(data) < 32 {
			l.err = errors.Join(err, fmt.Errorf("%s has %d bytes", name, len(data)))
			return l
		}
		for at := data[32:]; len(at) >= 32; {
			index, size := binary.LittleEndian.Uint64(at), 32+int(binary.LittleEndian.Uint16(at[24:]))+int(
				binary.LittleEndian.Uint32(at[16:]))
			if index == 0 || size > len(at) {
				break // the rest of a torn write
			}
			if len(l.sums) == 0 {
				l.first = index
			}
			l.last = index
			l.sums[index] = xxh3.Hash(slices.Concat(at[8:20], at[24:27], at[32:size]))
			at = at[min((size+7)/8*8, len(at)):]
		}
	}
	return l
}

// CompareLogs compares each log with those before it, up to a committed index.
func CompareLogs(logs []NodeLog, committed uint64) (all []LogOf) {
	type kept struct {
		node string
		sum  uint64
	}
	known := make(map[uint64]kept)
	for i := range logs {
		l := &logs[i]
		of := LogOf{Node: l.node, First: l.first, Last: l.last}
		if l.err != nil {
			of.Error = l.err.Error()
		} else if l.last < committed {
			of.Error = fmt.Sprintf("it ends at %d, and %d was committed and applied", l.last, committed)
		}
		for at := l.first; at <= min(l.last, committed); at++ {
			sum, there := l.sums[at]
			other, before := known[at]
			switch {
			case !there:
			case !before:
				known[at] = kept{l.node, sum}
			case other.sum == sum:
				of.Compared++
			case len(of.Differs) < maxOdd:
				of.Differs = append(of.Differs, fmt.Sprintf("committed entry %d is another than that of %s", at,
					other.node))
			}
		}
		all = append(all, of)
	}
	return all
}
