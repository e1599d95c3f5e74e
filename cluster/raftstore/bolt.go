package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// The buckets and the encoding of entries are those of hashicorp/raft-boltdb, byte for byte
// (TestBoltStore_isRaftBoltDBs).
var (
	bucketLogs = []byte("logs")
	bucketConf = []byte("conf")
	encoding   = oldTimes()
	decoding   = &codec.MsgpackHandle{}
)

// oldTimes encodes times as raft-boltdb does unless it is told otherwise.
func oldTimes() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.TimeNotBuiltin = true
	return h
}

// errKeyNotFound has the text that raft goes by.
var errKeyNotFound = errors.New("not found")

// spacers stand behind an entry that is larger than pageLeast, if apart is on: keys without values, of
// its index and one more byte. bbolt never divides a leaf of four keys or fewer, so that it writes up to
// four large entries again with each new one; a fifth key lets it leave them where they are.
const (
	spacers   = 4
	pageLeast = 4096
)

// encodedKept is the greatest room for encoded entries that is kept for the next ones.
const encodedKept = 4 << 20

// boltStore is raft's log, term and vote in one bbolt file. hashicorp/raft-boltdb, whose files
// these are, makes each entry's bytes anew, in a buffer that doubles until they fit.
type boltStore struct {
	db *bbolt.DB
	// apart has large entries stand in pages of their own.
	apart atomic.Bool

	// What follows belongs to the writing transaction, of which there is one at a time.
	encoded bytes.Buffer
	encoder *codec.Encoder
	ends    []int
}

// openStore opens the file and makes its buckets; to read only what is there, where the options say so.
func openStore(path string, options *bbolt.Options, noSync bool) (*boltStore, error) {
	db, err := bbolt.Open(path, 0o600, options)
	if err != nil {
		return nil, err
	}
	s := &boltStore{db: db}
	if options.ReadOnly {
		return s, nil
	}
	db.NoSync = noSync
	s.encoder = codec.NewEncoder(&s.encoded, encoding)
	if err := s.makeBuckets(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// makeBuckets commits whether there are any to make or not (openBolt).
func (s *boltStore) makeBuckets() error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucketLogs)
		if err == nil {
			_, err = tx.CreateBucketIfNotExists(bucketConf)
		}
		return err
	})
}

func (s *boltStore) Close() error { return s.db.Close() }

// FirstIndex returns the index of the oldest entry, 0 for none.
func (s *boltStore) FirstIndex() (uint64, error) {
	return s.end(func(c *bbolt.Cursor) []byte { key, _ := c.First(); return key })
}

// LastIndex returns the index of the newest entry, 0 for none.
func (s *boltStore) LastIndex() (uint64, error) {
	return s.end(func(c *bbolt.Cursor) []byte { key, _ := c.Last(); return key })
}

func (s *boltStore) end(of func(*bbolt.Cursor) []byte) (index uint64, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		if key := of(tx.Bucket(bucketLogs).Cursor()); key != nil {
			index = binary.BigEndian.Uint64(key)
		}
		return nil
	})
	return index, err
}

// GetLog reads an entry.
func (s *boltStore) GetLog(index uint64, entry *raft.Log) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		value := tx.Bucket(bucketLogs).Get(logKey(index))
		if value == nil {
			return raft.ErrLogNotFound
		}
		return codec.NewDecoder(bytes.NewBuffer(value), decoding).Decode(entry)
	})
}

// StoreLog stores one entry.
func (s *boltStore) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries in one transaction. Their bytes stand in room that is kept: bbolt
// holds them until it has copied them into its pages, and no longer.
func (s *boltStore) StoreLogs(entries []*raft.Log) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		if s.encoded.Cap() > encodedKept {
			s.encoded = bytes.Buffer{}
		}
		s.encoded.Reset()
		s.ends = s.ends[:0]
		for _, entry := range entries {
			s.encoder.Reset(&s.encoded)
			if err := s.encoder.Encode(entry); err != nil {
				return err
			}
			s.ends = append(s.ends, s.encoded.Len())
		}
		logs, begin := tx.Bucket(bucketLogs), 0
		for i, end := range s.ends {
			if err := logs.Put(logKey(entries[i].Index), s.encoded.Bytes()[begin:end:end]); err != nil {
				return err
			}
			if end-begin > pageLeast && s.apart.Load() {
				if err := setApart(logs, entries[i].Index); err != nil {
					return err
				}
			}
			begin = end
		}
		return nil
	})
}

// setApart puts spacers behind an entry that was just put, and takes away those of the entry before
// but for the one that keeps it apart: they would fill a page that nothing else comes to.
func setApart(logs *bbolt.Bucket, index uint64) error {
	for i := byte(0); i < spacers; i++ {
		if i > 0 {
			if err := logs.Delete(spacerKey(index-1, i)); err != nil {
				return err
			}
		}
		if err := logs.Put(spacerKey(index, i), nil); err != nil {
			return err
		}
	}
	return nil
}

// DeleteRange deletes the entries from low to high, both included, with their spacers.
func (s *boltStore) DeleteRange(low, high uint64) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketLogs).Cursor()
		for key, _ := c.Seek(logKey(low)); key != nil && binary.BigEndian.Uint64(key) <= high; key, _ = c.Next() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Set stores a value of the stable store.
func (s *boltStore) Set(key, value []byte) error {
	return s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketConf).Put(key, value) })
}

// Get reads one.
func (s *boltStore) Get(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		stored := tx.Bucket(bucketConf).Get(key)
		if stored == nil {
			return errKeyNotFound
		}
		value = append([]byte(nil), stored...)
		return nil
	})
	return value, err
}

// SetUint64 stores a number.
func (s *boltStore) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 reads one.
func (s *boltStore) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

func spacerKey(index uint64, i byte) []byte { return append(logKey(index), i) }

func logKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }
