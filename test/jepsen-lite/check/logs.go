package check

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
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
		found = append(found, Anomaly{Text: fmt.Sprintf("the logs of %d nodes were read, of %d they should", len(v.Logs), v.Nodes)})
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

// maxLogOpen bounds the wait for the file's lock: its node has ended.
const maxLogOpen = 10 * time.Second

// ReadLog reads the file itself, according to docs/reference/formats.md and not with the code that wrote it. The bytes
// of an entry are the same on every node, except for its key, with the moment at which its leader accepted it and its
// seal.
func ReadLog(node, path string) (l NodeLog) {
	l = NodeLog{node: node, sums: make(map[uint64]uint64)}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: maxLogOpen})
	if err != nil {
		l.err = err
		return l
	}
	defer db.Close()
	l.err = db.View(func(tx *bbolt.Tx) error {
		entries := tx.Bucket([]byte("logs"))
		if entries == nil {
			return errors.New("it holds no log")
		}
		from := uint64(math.MaxUint64) // where the log is spaced
		if conf := tx.Bucket([]byte("conf")); conf != nil && conf.Get([]byte("rota.spaced.1")) != nil {
			from = binary.BigEndian.Uint64(conf.Get([]byte("rota.spaced.1")))
		}
		return entries.ForEach(func(key, entry []byte) error {
			if len(key) != 8 {
				return fmt.Errorf("key %x is no index", key)
			}
			at := binary.BigEndian.Uint64(key)
			if at >= from && (at-from)%8 != 0 {
				return nil // it makes room behind an entry
			}
			if l.last = at; at >= from {
				l.last = from + (at-from)/8
			}
			if len(l.sums) == 0 {
				l.first = l.last
			}
			l.sums[l.last] = xxh3.Hash(withoutKey(entry))
			return nil
		})
	})
	return l
}

// withoutKey removes from an entry the key that it has in its file: the seal covers its index.
func withoutKey(entry []byte) []byte {
	at, end := bytes.LastIndex(entry, []byte("Index")), bytes.LastIndex(entry, []byte("Term"))
	if at < 0 || end < at {
		return entry
	}
	return slices.Concat(entry[:at], entry[end:])
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
				of.Differs = append(of.Differs, fmt.Sprintf("committed entry %d is another than that of %s", at, other.node))
			}
		}
		all = append(all, of)
	}
	return all
}
