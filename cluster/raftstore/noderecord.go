package raftstore

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/rotasched/rota"
)

// nodeRecord is the content of node.json: the node that this data directory belongs to, and the properties that
// distinguish the directory from a copy.
type nodeRecord struct {
	Format      int            `json:"format"`
	Node        rota.NodeID    `json:"node"`
	ClusterName string         `json:"cluster_name"`
	ClusterID   rota.ClusterID `json:"cluster_id"`
	// Identity is drawn when the directory is created and never changes: a peer that meets the node id with another
	// identity meets a node that has forgotten its votes.
	Identity string `json:"identity"`
	// DirInode and DirBorn belong to the directory, LockInode and LockBorn to the file LOCK, which is never replaced.
	DirInode  uint64 `json:"dir_inode"`
	DirBorn   int64  `json:"dir_born_ns"`
	LockInode uint64 `json:"lock_inode"`
	LockBorn  int64  `json:"lock_born_ns"`
	// Starts counts openings, Adoptions those where --adopt-data accepted a copy.
	Starts    uint64 `json:"starts"`
	Adoptions uint64 `json:"adoptions"`
	// Founders are the nodes that founded the cluster together with this one, and their identities. This node vouches
	// for them until the cluster has its first leader.
	Founders map[rota.NodeID]string `json:"founders,omitempty"`
	// Rebuild is the last rebuild of a wrong state (SPEC §2.5).
	Rebuild *RebuildRecord `json:"rebuild,omitempty"`
	// Cut is the last loss of applied entries from the end of the log (SPEC §2.5).
	Cut *CutRecord `json:"cut,omitempty"`
	// Recovery is a recovery that has not finished (SECURITY §5.2).
	Recovery *RecoveryRecord `json:"recovery,omitempty"`
	// Sum is the CRC32C of the record without this field, in 8 hex digits. Without it, a bit flipped in a field name
	// would look like a field that was never set.
	Sum string `json:"sum"`
}

// RebuildRecord is a rebuild of the state, as node.json keeps it. A rebuild that a crash interrupts starts again.
type RebuildRecord struct {
	// Open reports that the state, or a file derived from it, is wrong.
	Open bool `json:"open"`
	// At is the index where the fault was detected. The state was correct up to Agreed, and Ended is the number of the
	// newest terminal job there.
	At     uint64 `json:"at"`
	Agreed uint64 `json:"agreed"`
	Ended  uint64 `json:"ended"`
	// Again counts rebuilds that closely followed another; DoneMs is when the last one ended, in Unix milliseconds.
	Again  int   `json:"again"`
	DoneMs int64 `json:"done_ms"`
	// Past is the newest entry that this node had applied of a log whose end was cut off, 0 for none. Up to there,
	// raft's count of entries that it delivered is meaningless.
	Past uint64 `json:"past,omitempty"`
}

// CutRecord records that a leader which had forgotten entries replaced some that this node had applied.
type CutRecord struct {
	// From is the first replaced entry, Term its term here, To the newest entry that this node had applied.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	Term uint64 `json:"term"`
	// AtMs is the time of the loss, in Unix milliseconds.
	AtMs int64 `json:"at_ms"`
}

// recordSum returns the expected value of the field sum of an encoded record. It depends on no other field, since a
// later binary may have added some.
func recordSum(data []byte) string {
	var compact bytes.Buffer
	_ = json.Compact(&compact, data)
	front, _, _ := bytes.Cut(compact.Bytes(), []byte(`,"sum":"`)) // the last field; quotes in strings are escaped
	return fmt.Sprintf("%08x", crc32.Update(crc32.Checksum(front, castagnoli), castagnoli, []byte("}")))
}

func (d *DataDir) read() (nodeRecord, error) {
	var record nodeRecord
	path := filepath.Join(d.path, nodeFile)
	data, err := readSmallFile(path, nodeFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return record, err
	}
	if err != nil {
		return record, fmt.Errorf("read %s: %w", path, err)
	}
	if err := d.checkWriter(data); err != nil {
		return record, err
	}
	if err := json.Unmarshal(data, &record); err != nil {
		return record, damaged(path, err.Error())
	}
	if raw, err := hex.DecodeString(record.Identity); err != nil || len(raw) != identityBytes {
		return record, damaged(path, "its identity is not 32 hex digits")
	}
	return record, nil
}

// checkWriter rejects a record that is damaged or was written by a binary with another format. It reads only the fields
// that every binary writes, and the number that drafts before the first release had.
func (d *DataDir) checkWriter(data []byte) error {
	path := filepath.Join(d.path, nodeFile)
	var by struct {
		Format int    `json:"format"`
		Draft  uint32 `json:"draft"`
		Sum    string `json:"sum"`
	}
	if err := json.Unmarshal(data, &by); err != nil {
		return damaged(path, err.Error())
	}
	if by.Format < plainFormat || by.Format > NodeFormat {
		return rota.Refusef(rota.KindConflict, "data", "%s has format %d, this binary knows %d to %d: start the "+
			"version of rota that wrote it, or a newer one", path, by.Format, plainFormat, NodeFormat)
	}
	if by.Sum != recordSum(data) {
		return damaged(path, "it does not match its checksum")
	}
	if by.Draft != 0 {
		return rota.Refusef(rota.KindConflict, "data",
			"data directory %s was written by draft %d of rota, from before its first release. "+
				"Start with an empty --data, or run the binary that wrote it", d.path, by.Draft)
	}
	return nil
}

// store writes a record durably and makes it the directory's record.
func (d *DataDir) store(record nodeRecord) error {
	plain, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode %s: %w", nodeFile, err)
	}
	record.Sum = recordSum(plain)
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", nodeFile, err)
	}
	err = replaceFile(filepath.Join(d.path, nodeFile), append(data, '\n'))
	if noRoom(err) {
		return diskFull(d.path, err)
	}
	if err == nil {
		d.record = record
	}
	return err
}

// sameBirth compares inodes, and creation times where both are known.
func sameBirth(a, b nodeRecord) bool {
	same := func(inodeA, inodeB uint64, bornA, bornB int64) bool {
		return inodeA == inodeB && (bornA == bornB || bornA == 0 || bornB == 0)
	}
	return same(a.DirInode, b.DirInode, a.DirBorn, b.DirBorn) &&
		same(a.LockInode, b.LockInode, a.LockBorn, b.LockBorn)
}

// identityBytes is the length of a directory's identity in bytes.
const identityBytes = 16

func newIdentity() string {
	var raw [identityBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}
