package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// The buckets of the archive; events have others in the same file. docs/reference/formats.md lists them with the files
// that have their layouts.
var (
	metaBucket    = []byte("jobs.meta")
	recordsBucket = []byte("jobs.records")
	idsBucket     = []byte("jobs.ids")
)

// The keys of metaBucket.
var (
	metaFormat      = []byte("format")
	metaCluster     = []byte("cluster")
	metaIncarnation = []byte("incarnation")
	metaHeld        = []byte("held")
	metaAbsent      = []byte("absent")
	metaFloor       = []byte("floor")
	metaLost        = []byte("lost")
	metaSize        = []byte("size")
	metaApplied     = []byte("applied")
	metaSum         = []byte("sum")
)

// Format is the newest version of the layouts of the buckets of ended jobs and events. Files begin with plainFormat,
// whose blocks are not compressed, until Pack.
const (
	Format      = 3
	plainFormat = 2
)

// Jobs is a node's store of terminal jobs (SPEC §10.5), by their dense numbers. It records which numbers it holds, so
// that it can fetch missing ones and never mistakes a missing record for a missing job. All methods are safe for
// concurrent use. Writes are on disk when they return.
type Jobs struct {
	db *bbolt.DB

	// write lets one writer at a time compute and commit; mu guards the copy of metaBucket in memory, which is never
	// ahead of the disk and never waits for it.
	write sync.Mutex
	mu    sync.RWMutex
	meta  bookkeeping
}

// bookkeeping is the archive's own bookkeeping.
type bookkeeping struct {
	format      byte
	cluster     rota.ClusterID
	incarnation uint64
	// held are the numbers that are here, superseded by a later life of the same job, or in absent: known not to exist
	// anywhere. floor is the last number deleted by retention, lost how many of absent retention does not account for.
	held, absent Spans
	floor, lost  uint64
	// records and bytes count what recordsBucket holds, keys not included; recount means that they must be counted
	// again.
	records, bytes uint64
	recount        bool
	// applied is the newest entry of the state that staged records came from.
	applied uint64
}

// Stats describes the content of an archive.
type Stats struct {
	Records, Bytes uint64
	// Floor is the last number deleted by retention, Lost how many numbers no node has.
	Floor, Lost uint64
	// OldestDate is when the oldest record's job ended, 0 for none.
	OldestDate rota.Date
}

// OpenJobs uses the archive in a file opened by Open.
func OpenJobs(db *bbolt.DB) (*Jobs, error) {
	a := &Jobs{db: db}
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{metaBucket, recordsBucket, idsBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		b := tx.Bucket(metaBucket)
		if err := refuseFormat(db.Path(), b); err != nil {
			return err
		}
		if k, _ := b.Cursor().First(); k == nil { // everything else is new too
			if k, _ = tx.Bucket(recordsBucket).Cursor().First(); k != nil {
				return errBookkeeping
			}
		}
		if err := a.meta.load(b); err != nil || len(a.meta.held) > 0 {
			return err
		}
		if err := (marks{b: tx.Bucket(idsBucket)}).begin(); err != nil {
			return err
		}
		return a.meta.save(b)
	})
	if err != nil {
		return nil, carried(opOpen, err, notUsable, db.Path())
	}
	return a, nil
}

// refuseFormat refuses a format unknown to this binary.
func refuseFormat(path string, b *bbolt.Bucket) error {
	if format := b.Get(metaFormat); format != nil && !bytes.Equal(format, []byte{Format}) &&
		!bytes.Equal(format, []byte{plainFormat}) {
		return rota.Refusef(rota.KindConflict, "archive",
			"%s has format %x, this binary knows %d: start the binary that wrote it",
			path, format, Format)
	}
	return nil
}

// ReadOnly opens the archive in the file of a stopped node, and refuses what OpenJobs would. It writes nothing.
func ReadOnly(path string) (*Jobs, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, ReadOnly: true})
	if err != nil {
		return nil, openRefusal(path, err)
	}
	a := &Jobs{db: db}
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(metaBucket)
		if b == nil {
			return nil
		}
		if err := refuseFormat(path, b); err != nil {
			return err
		}
		return a.meta.load(b)
	})
	if err != nil {
		return nil, errors.Join(carried(opOpen, err, notUsable, path), db.Close())
	}
	return a, nil
}

// Close closes the file.
func (a *Jobs) Close() error { return a.db.Close() }

// Peek returns the cluster that a file is bound to, empty for none, and refuses what OpenJobs would. It writes nothing.
func Peek(path string) (cluster rota.ClusterID, err error) {
	a, err := ReadOnly(path)
	if err != nil {
		return "", err
	}
	cluster, _ = a.Cluster()
	return cluster, a.Close()
}

// notUsable is the error text of an archive that is refused.
const notUsable = "the archive %s is not usable: move it away, and it is fetched again from the other nodes"

func (s *bookkeeping) load(b *bbolt.Bucket) error {
	if k, _ := b.Cursor().First(); k != nil && !bytes.Equal(b.Get(metaSum), metaSumOf(b)) {
		return errBookkeeping
	}
	if s.format = plainFormat; len(b.Get(metaFormat)) == 1 {
		s.format = b.Get(metaFormat)[0]
	}
	s.cluster = rota.ClusterID(b.Get(metaCluster))
	s.incarnation, s.floor = number(b.Get(metaIncarnation)), number(b.Get(metaFloor))
	if size := b.Get(metaSize); len(size) == 16 {
		s.records, s.bytes = binary.BigEndian.Uint64(size), binary.BigEndian.Uint64(size[8:])
	}
	s.lost, s.applied = number(b.Get(metaLost)), number(b.Get(metaApplied))
	held, whole := parseSpans(b.Get(metaHeld))
	absent, sound := parseSpans(b.Get(metaAbsent))
	if !whole || !sound {
		return errBookkeeping
	}
	s.held, s.absent = held, absent
	return nil
}

var errBookkeeping = rota.Refusef(rota.KindInternal, "archive", "its list of held records is damaged")

func (s *bookkeeping) save(b *bbolt.Bucket) error {
	size := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.records), s.bytes)
	for _, kv := range []struct{ key, value []byte }{
		{metaFormat, []byte{s.format}}, {metaCluster, []byte(s.cluster)}, {metaIncarnation, seqKey(s.incarnation)},
		{metaHeld, s.held.append(nil)}, {metaAbsent, s.absent.append(nil)}, {metaFloor, seqKey(s.floor)},
		{metaLost, seqKey(s.lost)}, {metaSize, size}, {metaApplied, seqKey(s.applied)},
	} {
		if err := b.Put(kv.key, kv.value); err != nil {
			return err
		}
	}
	return b.Put(metaSum, metaSumOf(b))
}

// metaSumOf returns the checksum over all other keys: a flipped bit in the list of held numbers must not create a
// record that never existed.
func metaSumOf(b *bbolt.Bucket) []byte {
	sum := checksum(nil)
	_ = b.ForEach(func(k, v []byte) error {
		if !bytes.Equal(k, metaSum) {
			head := binary.BigEndian.AppendUint32([]byte{byte(len(k))}, uint32(len(v)))
			sum = updateSum(updateSum(updateSum(sum, head), k), v)
		}
		return nil
	})
	return binary.BigEndian.AppendUint32(nil, sum)
}

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// Claim binds the archive to a cluster and incarnation, forever. It refuses one that is bound to another, by name: its
// numbers refer to other jobs.
func (a *Jobs) Claim(cluster rota.ClusterID, incarnation uint64) error {
	return a.change(func(_ *bbolt.Tx, s *bookkeeping) error {
		if s.cluster == "" {
			s.cluster, s.incarnation = cluster, incarnation
		}
		return nil
	}, func(s *bookkeeping) error {
		if s.cluster == cluster && s.incarnation == incarnation {
			return errNoChange
		}
		if s.cluster != "" {
			return rota.Refusef(rota.KindConflict, "archive",
				"%s holds the history of cluster %s, incarnation %d, but this node is of cluster %s, incarnation %d. "+
					"Move it away: the right one is then fetched from the other nodes",
				a.db.Path(), s.cluster, s.incarnation, cluster, incarnation)
		}
		return nil
	})
}

// Pack makes the archive write compressed blocks from now on: v0.1.0, which knows only rules version 1, cannot read them.
func (a *Jobs) Pack() error {
	return a.change(func(_ *bbolt.Tx, s *bookkeeping) error {
		s.format = Format
		return nil
	}, func(s *bookkeeping) error {
		if s.format == Format {
			return errNoChange
		}
		return nil
	})
}

// Cluster returns what the archive is bound to; empty if to nothing yet.
func (a *Jobs) Cluster() (rota.ClusterID, uint64) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.meta.cluster, a.meta.incarnation
}

// Applied returns the newest entry of the states that the records were staged from: the log was applied up to there
// when they were written. 0 if unknown.
func (a *Jobs) Applied() rota.Index {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return rota.Index(a.meta.applied)
}

// errNoChange ends a change before anything is written.
var errNoChange = rota.Refusef(rota.KindInternal, "archive", "nothing to change")

// change performs one write: check first, then do in one transaction. It adopts the new bookkeeping only when the
// transaction is on disk.
func (a *Jobs) change(do func(*bbolt.Tx, *bookkeeping) error, check func(*bookkeeping) error) error {
	a.write.Lock()
	defer a.write.Unlock()
	if check != nil {
		if err := check(&a.meta); err == errNoChange {
			return nil
		} else if err != nil {
			return err
		}
	}
	next := a.meta
	next.held, next.absent = slices.Clone(a.meta.held), slices.Clone(a.meta.absent)
	err := a.db.Update(func(tx *bbolt.Tx) error {
		if err := do(tx, &next); err != nil {
			return err
		}
		if next.recount {
			next.count(tx.Bucket(recordsBucket))
		}
		return next.save(tx.Bucket(metaBucket))
	})
	if err != nil {
		return carried(opJobs, err, "the archive %s was not written", a.db.Path())
	}
	a.mu.Lock()
	a.meta = next
	a.mu.Unlock()
	return nil
}

// Forgo records numbers as gone: all other nodes were asked, and none has them. Of those, retention does not account
// for lost.
func (a *Jobs) Forgo(span Span, lost uint64) error {
	return a.change(func(_ *bbolt.Tx, s *bookkeeping) error {
		s.held.Add(span.From, span.To)
		s.absent.Add(span.From, span.To)
		s.lost += lost
		return nil
	}, nil)
}

// Lacks returns the numbers up to last that are neither held nor deleted by retention, at most most spans.
func (a *Jobs) Lacks(last uint64, most int) Spans {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.meta.held.gaps(a.meta.floor+1, last, most)
}

// Last returns the newest number that is held here, 0 for none.
func (a *Jobs) Last() uint64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.meta.held) == 0 {
		return 0
	}
	return a.meta.held[len(a.meta.held)-1].To
}

// Holds reports whether a number is here, or need not be.
func (a *Jobs) Holds(seq uint64) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return seq <= a.meta.floor || a.meta.held.Has(seq)
}

// Missing returns those of the ordered numbers that should have a record here and have none, at most most of them:
// none, in an intact archive.
func (a *Jobs) Missing(seqs []uint64, most int) (missing []uint64, err error) {
	err = a.db.View(func(tx *bbolt.Tx) error {
		var s bookkeeping
		if err := s.load(tx.Bucket(metaBucket)); err != nil {
			return err
		}
		records := finder{b: tx.Bucket(recordsBucket)}
		for _, seq := range seqs {
			if !s.owes(seq) {
				continue
			}
			if known, _ := records.has(seq); !known {
				if missing = append(missing, seq); len(missing) == most {
					return nil
				}
			}
		}
		return nil
	})
	return missing, err
}

// Stats returns a description of the archive's content.
func (a *Jobs) Stats() Stats {
	a.mu.RLock()
	s := Stats{Records: a.meta.records, Bytes: a.meta.bytes, Floor: a.meta.floor, Lost: a.meta.lost}
	a.mu.RUnlock()
	_ = a.db.View(func(tx *bbolt.Tx) error {
		if row, ok := newRecordCursor(tx.Bucket(recordsBucket)).seek(0); ok {
			s.OldestDate, _ = recordHead(row.value)
		}
		return nil
	})
	return s
}

// adopt copies the held numbers of another archive.
func (a *Jobs) adopt(floor uint64, held Spans) error {
	var w writer
	defer func() { w.release() }() // bbolt refers to its rooms until the transaction is over
	return a.change(func(tx *bbolt.Tx, s *bookkeeping) error {
		s.floor = max(s.floor, floor)
		w = writer{s: s, records: tx.Bucket(recordsBucket), ids: marksOf(tx)}
		return w.put(nil, held)
	}, nil)
}
