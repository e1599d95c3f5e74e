package virtualnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/snapshot/archive"
)

// Warm creates, outside of every bubble, the compressors that packages snapshot and cluster create once and keep: they
// hold channels, which can be used only in the bubble where they were created.
var Warm = sync.OnceValue(warm)

func warm() error {
	if err := cluster.WarmLogs(); err != nil {
		return err
	}
	if _, err := archive.DecodeEvents(archive.EncodeEvents([]archive.EventEntry{{Index: 1, Count: 1}})); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rota-virtual-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := archive.Open(filepath.Join(dir, archive.FileName))
	if err != nil {
		return err
	}
	defer db.Close()
	jobs, err := archive.OpenJobs(db)
	if err != nil {
		return err
	}
	if err := jobs.PutStaged(nil, 0); err != nil {
		return err
	}
	// An invalid record, in any part of the file that holds records.
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, part *bbolt.Bucket) error {
			return part.Put(binary.BigEndian.AppendUint64(nil, 1), []byte("none"))
		})
	})
	if err != nil {
		return err
	}
	if _, _, err := jobs.At(1); !errors.Is(err, archive.ErrRecordDamaged) {
		return fmt.Errorf("the archive was not looked into: %w", err)
	}
	return nil
}
