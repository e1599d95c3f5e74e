package recovery

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

// Jobs are the jobs in a stopped node's data directory or a backup, live and ended.
type Jobs struct {
	list *fsm.JobList
	// history is nil if there is none.
	history *archive.Jobs
	close   func() error
	// Damaged counts the records that were read and are damaged.
	Damaged int
}

// OpenJobs opens the jobs in the data directory of a stopped node. It writes nothing.
func OpenJobs(ctx context.Context, data string) (*Jobs, error) {
	s, err := stateOf(ctx, data)
	if err != nil {
		return nil, err
	}
	j := &Jobs{list: s.m.Jobs(), close: func() error { return nil }}
	ended, err := history.ReadOnly(filepath.Join(data, archive.FileName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return j, nil
	case err != nil:
		return nil, err
	}
	head := s.m.Head()
	if cluster, incarnation := ended.Cluster(); cluster != "" &&
		(cluster != head.ClusterID || incarnation != head.Incarnation) {
		return nil, errors.Join(rota.Refusef(rota.KindConflict, "archive",
			"the archive in %s is of cluster %s, the log is of cluster %s: move the archive away",
			data, cluster, head.ClusterID), ended.Close())
	} else if cluster != "" {
		j.history = ended
	}
	j.close = ended.Close
	return j, nil
}

// OpenBackupJobs opens the jobs in a backup; archived ones are unpacked into a temporary directory.
func OpenBackupJobs(open snapshot.Opener) (_ *Jobs, err error) {
	m, err := loadState(open)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rota-jobs-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := writeHistory(dir, m, func(take func(kind byte, record []byte) error) error {
		return sections(open, take)
	}); err != nil {
		return nil, err
	}
	ended, err := archive.ReadOnly(filepath.Join(dir, archive.FileName))
	if err != nil {
		return nil, err
	}
	return &Jobs{list: m.Jobs(), history: ended, close: func() error {
		return errors.Join(ended.Close(), os.RemoveAll(dir))
	}}, nil
}

// All returns the jobs that a filter selects, in the order in which a cluster lists them; it ignores Limit and Cursor.
func (j *Jobs) All(filter rota.JobFilter) iter.Seq2[rota.Job, error] {
	filter.Limit, filter.Cursor = math.MaxInt, "" // a single page of any size
	return func(yield func(rota.Job, error) bool) {
		for {
			page, err := j.page(filter)
			if err != nil {
				yield(rota.Job{}, err)
				return
			}
			for i := range page.Jobs {
				if !yield(page.Jobs[i], nil) {
					return
				}
			}
			if filter.Cursor = page.NextCursor; filter.Cursor == "" {
				return
			}
		}
	}
}

func (j *Jobs) page(filter rota.JobFilter) (rota.JobPage, error) {
	if j.history == nil {
		return j.list.Page(filter, nil)
	}
	r, err := j.history.Read()
	if err != nil {
		return rota.JobPage{}, err
	}
	defer func() {
		j.Damaged += len(r.Damaged)
		r.Close()
	}()
	return j.list.Page(filter, r)
}

// Close closes the files, and removes the temporary directory.
func (j *Jobs) Close() error { return j.close() }
