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
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/rotasched/rota"
)

const (
	nodeFile    = "node.json"
	lockName    = "LOCK"
	nodeFileMax = 64 << 10
	// nodeFormat is the version of node.json.
	nodeFormat = 1
)

// nodeRecord is node.json: who this data directory belongs to, and what tells
// it from a copy of itself.
type nodeRecord struct {
	Format int `json:"format"`
	// Draft is that of the binary that started last.
	Draft       uint32         `json:"draft"`
	Node        rota.NodeID    `json:"node"`
	ClusterName string         `json:"cluster_name"`
	ClusterID   rota.ClusterID `json:"cluster_id"`
	// Identity is drawn when the directory is made and never changes: a peer that
	// meets the node id with another identity meets a node that forgot its votes.
	Identity string `json:"identity"`
	// DirInode and DirBorn are those of the directory, LockInode and LockBorn
	// those of the file LOCK, which nothing ever replaces.
	DirInode  uint64 `json:"dir_inode"`
	DirBorn   int64  `json:"dir_born_ns"`
	LockInode uint64 `json:"lock_inode"`
	LockBorn  int64  `json:"lock_born_ns"`
	// Starts counts openings, Adoptions those with --adopt-data that took a copy.
	Starts    uint64 `json:"starts"`
	Adoptions uint64 `json:"adoptions"`
	// Founders are the nodes that this one founded the cluster with, and their
	// identities; it vouches for them until the cluster has its first leader.
	Founders map[rota.NodeID]string `json:"founders,omitempty"`
	// Rebuild is that of a state that was wrong (SPEC §2.5).
	Rebuild *RebuildRecord `json:"rebuild,omitempty"`
	// Sum is CRC32C of the record without it, in 8 hex digits. A bit that flips in a
	// name would else be a field that was never set.
	Sum string `json:"sum"`
}

// RebuildRecord is a rebuild of the state, as node.json keeps it: one that a crash
// interrupts begins anew.
type RebuildRecord struct {
	// Open says that the state, or something that it left on the disk, is wrong.
	Open bool `json:"open"`
	// At is where that was seen; up to Agreed the state was right, and Ended is the
	// number of the newest terminal job there.
	At     uint64 `json:"at"`
	Agreed uint64 `json:"agreed"`
	Ended  uint64 `json:"ended"`
	// Again counts rebuilds that closely followed another; DoneMs is
	// when the last one ended, Unix milliseconds.
	Again  int   `json:"again"`
	DoneMs int64 `json:"done_ms"`
}

// recordSum returns what the field sum of an encoded record should be. It needs no other
// field: a bit that flips must not look like another draft.
func recordSum(data []byte) string {
	var compact bytes.Buffer
	_ = json.Compact(&compact, data)
	front, _, _ := bytes.Cut(compact.Bytes(), []byte(`,"sum":"`)) // the last field; a quote in a text is escaped
	return fmt.Sprintf("%08x", crc32.Update(crc32.Checksum(front, castagnoli), castagnoli, []byte("}")))
}

// DataDir is a node's data directory, locked for this process. Raft remembers
// votes and acknowledged entries in it: a node that runs on a copy, an older
// state or an emptied one breaks promises that it has forgotten, so each of
// those is refused (SPEC §13.4; hashicorp/raft does not look).
type DataDir struct {
	path  string
	fresh bool
	lock  *os.File

	mu     sync.Mutex // guards record
	record nodeRecord
}

// OpenDataDir opens or makes the data directory of a node and counts the start.
// adopt is --adopt-data: the operator's word that a copy is the only and newest
// one. Refusals are *rota.Error of kind Conflict and say what to do.
func OpenDataDir(path string, id rota.NodeID, clusterName string, adopt bool) (*DataDir, error) {
	if err := rota.CheckID("node id", id); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("resolve data directory: %w", err)
	}
	if err := makeDir(path); err != nil {
		return nil, err
	}
	d := &DataDir{path: path}
	if d.lock, err = lockDir(path, id); err != nil {
		return nil, err
	}
	if err := d.load(id, clusterName, adopt); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// Path is the directory, absolute.
func (d *DataDir) Path() string { return d.path }

// Fresh says that there was no raft state when the directory was opened: no
// term, entry, vote or snapshot. A node that was started once and waited in vain
// for others left a raft.db without any, and is fresh still.
func (d *DataDir) Fresh() bool { return d.fresh }

// Identity is 32 hex digits drawn when the directory was made.
func (d *DataDir) Identity() string { return d.snapshot().Identity }

// Starts counts the openings of the directory, this one included.
func (d *DataDir) Starts() uint64 { return d.snapshot().Starts }

// ClusterID is the cluster's id, empty until SetClusterID.
func (d *DataDir) ClusterID() rota.ClusterID { return d.snapshot().ClusterID }

// SetClusterID records the cluster that this directory belongs to, for ever.
// The same id again is fine, another one is refused.
func (d *DataDir) SetClusterID(id rota.ClusterID) error {
	if err := rota.CheckID("cluster id", id); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.record.ClusterID {
	case id:
		return nil
	case "":
	default:
		return rota.Refusef(rota.Conflict, "cluster-id", "data directory %s belongs to cluster id %s, but the "+
			"cluster reached has id %s: two clusters share the name %q. Check --join, or give one of them "+
			"another --cluster name", d.path, d.record.ClusterID, id, d.record.ClusterName)
	}
	next := d.record
	next.ClusterID = id
	if err := d.store(next); err != nil {
		return err
	}
	d.record = next
	return nil
}

// SetFounders records with whom this node founds its cluster.
func (d *DataDir) SetFounders(founders map[rota.NodeID]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.record
	next.Founders = founders
	if err := d.store(next); err != nil {
		return err
	}
	d.record = next
	return nil
}

// Founders tells with whom this node founded its cluster; nil if it joined one.
func (d *DataDir) Founders() map[rota.NodeID]string { return d.snapshot().Founders }

// Rebuild tells the last rebuild of the state; the zero record for none.
func (d *DataDir) Rebuild() RebuildRecord {
	if r := d.snapshot().Rebuild; r != nil {
		return *r
	}
	return RebuildRecord{}
}

// SetRebuild records how far a rebuild is, so that a crash interrupts it only.
func (d *DataDir) SetRebuild(r RebuildRecord) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.record
	next.Rebuild = &r
	if err := d.store(next); err != nil {
		return err
	}
	d.record = next
	return nil
}

// Close gives the directory free for another process.
func (d *DataDir) Close() error { return d.lock.Close() }

func (d *DataDir) snapshot() nodeRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.record
}

// makeDir makes the directory, and its name durable.
func makeDir(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// lockDir takes the lock and writes into it who holds it, for the refusal of
// the next one.
func lockDir(path string, id rota.NodeID) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	free, err := lockFile(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if !free {
		holder, _ := readSmallFile(file.Name(), 256)
		return nil, errors.Join(rota.Refusef(rota.Conflict, "data", "data directory %s is in use by %s: two "+
			"processes on one directory would destroy it. Stop that process, or give this node a --data "+
			"of its own", path, holderWords(holder)), file.Close())
	}
	// The note is a courtesy: a full disk must not keep the node from saying so later.
	if err := file.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(file, "process %d, node %s\n", os.Getpid(), id)
	}
	return file, nil
}

func holderWords(note []byte) string {
	if text := strings.TrimSpace(string(note)); text != "" {
		return text
	}
	return "another process"
}

// load reads or makes node.json, refuses what does not fit, counts the start.
func (d *DataDir) load(id rota.NodeID, clusterName string, adopt bool) error {
	// What a crash left of writing node.json.
	left, _ := filepath.Glob(filepath.Join(d.path, "."+nodeFile+"-*.tmp"))
	for _, name := range left {
		_ = os.Remove(name)
	}
	hasState, err := d.hasRaftState()
	if err != nil {
		return err
	}
	d.fresh = !hasState
	now := nodeRecord{Format: nodeFormat, Draft: rota.Draft, Node: id, ClusterName: clusterName}
	if now.DirInode, now.DirBorn, err = birthOf(d.path); err != nil {
		return err
	}
	if now.LockInode, now.LockBorn, err = birthOf(filepath.Join(d.path, lockName)); err != nil {
		return err
	}
	kept, err := d.read()
	switch {
	case errors.Is(err, fs.ErrNotExist) && hasState:
		return damaged(filepath.Join(d.path, nodeFile), "it is missing beside raft state")
	case errors.Is(err, fs.ErrNotExist):
		now.Identity = newIdentity()
	case err != nil:
		return err
	default:
		if err := d.check(kept, now, adopt); err != nil {
			return err
		}
		now.ClusterID, now.Identity, now.Starts = kept.ClusterID, kept.Identity, kept.Starts
		now.Adoptions, now.Founders, now.Rebuild = kept.Adoptions, kept.Founders, kept.Rebuild
		if !sameBirth(kept, now) {
			now.Adoptions++
		}
	}
	now.Starts++
	if err := d.store(now); err != nil {
		return err
	}
	d.record = now
	return nil
}

// check refuses a directory that is not this node's, or not the original.
func (d *DataDir) check(kept, now nodeRecord, adopt bool) error {
	switch {
	case kept.Node != now.Node:
		return rota.Refusef(rota.Conflict, "node", "data directory %s belongs to node %s, but this node was "+
			"started as %s: a node that votes under two ids, or on another's votes, can lose data. Start it "+
			"with --node %s, or give %s an empty --data of its own",
			d.path, kept.Node, now.Node, kept.Node, now.Node)
	case kept.ClusterName != now.ClusterName:
		return rota.Refusef(rota.Conflict, "cluster", "data directory %s belongs to cluster %q, but this node was "+
			"started for cluster %q. Start it with --cluster %s, or give it an empty --data and a new node id",
			d.path, kept.ClusterName, now.ClusterName, kept.ClusterName)
	case !sameBirth(kept, now) && !adopt:
		return rota.Refusef(rota.Conflict, "data", "data directory %s was copied or moved from elsewhere, or "+
			"restored in place (it, or its file LOCK, is not the one that node %s made): a copy may have "+
			"forgotten votes and acknowledged entries. Start the original, or remove this copy and join as "+
			"a new node with a new id; if the original is gone for good and this is its only and newest copy, "+
			"start once with --adopt-data", d.path, kept.Node)
	case d.fresh && kept.ClusterID != "":
		return damaged(filepath.Join(d.path, raftFile),
			fmt.Sprintf("it is missing or empty, though this node belongs to cluster id %s", kept.ClusterID))
	}
	return nil
}

// hasRaftState says whether raft ever wrote here. What cannot be read counts as
// state: Preflight will say what is wrong with it.
func (d *DataDir) hasRaftState() (bool, error) {
	for _, name := range []string{raftFile, snapshotsDir} {
		info, err := os.Stat(filepath.Join(d.path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("look for raft state: %w", err)
		}
		if name == raftFile && info.Size() > 0 && holdsState(filepath.Join(d.path, name)) {
			return true, nil
		}
		if name == snapshotsDir {
			inside, err := os.ReadDir(filepath.Join(d.path, name))
			if err != nil || len(inside) > 0 {
				return true, err
			}
		}
	}
	return false, nil
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

// checkWriter refuses a record that is not whole, or that another binary wrote in its own
// way. It reads the fields only that every binary writes.
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
	if by.Format != nodeFormat {
		return rota.Refusef(rota.Conflict, "data", "%s has format %d, this binary knows %d: start the "+
			"version of rota that wrote it, or a newer one", path, by.Format, nodeFormat)
	}
	if by.Sum != recordSum(data) {
		return damaged(path, "it does not match its checksum")
	}
	return rota.CheckDraft("data directory "+d.path+" was written by", by.Draft,
		"start with an empty --data, or run the binary that wrote it")
}

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
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return diskFull(d.path, err)
	}
	return err
}

// sameBirth compares inodes, and moments of creation where both are known.
func sameBirth(a, b nodeRecord) bool {
	same := func(inodeA, inodeB uint64, bornA, bornB int64) bool {
		return inodeA == inodeB && (bornA == bornB || bornA == 0 || bornB == 0)
	}
	return same(a.DirInode, b.DirInode, a.DirBorn, b.DirBorn) &&
		same(a.LockInode, b.LockInode, a.LockBorn, b.LockBorn)
}

// identityBytes is the length of a directory's identity.
const identityBytes = 16

func newIdentity() string {
	var raw [identityBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}
