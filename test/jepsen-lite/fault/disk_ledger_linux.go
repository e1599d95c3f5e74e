package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// diskBlock is the unit that a disk writes completely or not at all.
const diskBlock = 4096

// ledger knows which parts of a directory's current state a loss of power would destroy, and destroys them. The files
// hold the current state, so reads, stat and mmap need no special handling; the ledger holds the previous contents,
// block by block, until an fsync. An overlay of the new blocks was rejected: each read would have to merge.
//
// The model: fsync or fdatasync of a file keeps its data and size. A name that was made, removed or renamed is kept by
// fsync of a directory in which it changed, and then so is every earlier change that it builds upon. Nothing else keeps
// anything; journaling file systems keep more, POSIX promises only this. Blocks covered by a failed fsync count as
// clean afterwards, as in the kernel: only another write of that block, and another fsync, keep it.
type ledger struct {
	// data is the directory, gone holds removed files that may come back.
	data, gone string

	mu    sync.Mutex
	files map[uint64]*unsynced
	names []nameChange
	// removed counts all files ever moved to gone, to name them there.
	removed int
}

// unsynced is the previous contents of a file, as of its last sync, where they differ from the current contents.
type unsynced struct {
	size int64
	// blocks are by number, up to the file's length; nil beyond its end.
	blocks map[int64][]byte
	// bad are the blocks of a failed fsync: their writes are never kept.
	bad map[int64][]byte
	// cut means that the file became shorter.
	cut bool
}

type nameVerb int

const (
	nameMade nameVerb = iota
	nameRemoved
	nameMoved
)

// nameChange is one change of a directory; directories and files are inodes.
type nameChange struct {
	verb     nameVerb
	dir, ino uint64
	name     string
	// toDir and to are the target of a move.
	toDir uint64
	to    string
	// kept is the place in gone of the removed or overwritten file, if any.
	kept string
}

// openLedger makes the two directories below base, which must not exist yet.
func openLedger(base string) (*ledger, error) {
	l := &ledger{data: filepath.Join(base, "data"), gone: filepath.Join(base, "gone"),
		files: make(map[uint64]*unsynced)}
	return l, errors.Join(os.MkdirAll(l.data, 0o700), os.MkdirAll(l.gone, 0o700))
}

func inodeOf(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

func inodeAt(path string) uint64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return inodeOf(info)
}

// of returns a file's entry, a new one where nothing is unsynced.
func (l *ledger) of(f *os.File, ino uint64) (*unsynced, error) {
	if u := l.files[ino]; u != nil {
		return u, nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	u := &unsynced{size: info.Size(), blocks: make(map[int64][]byte), bad: make(map[int64][]byte)}
	l.files[ino] = u
	return u, nil
}

// save keeps the previous contents of one block.
func (u *unsynced) save(f *os.File, block int64) error {
	if _, saved := u.blocks[block]; saved {
		return nil
	}
	if before, was := u.bad[block]; was {
		u.blocks[block] = before
		delete(u.bad, block)
		return nil
	}
	if block*diskBlock >= u.size {
		u.blocks[block] = nil
		return nil
	}
	before := make([]byte, min(diskBlock, u.size-block*diskBlock))
	n, err := f.ReadAt(before, block*diskBlock)
	if n < len(before) {
		return err
	}
	u.blocks[block] = before
	return nil
}

// write writes data that a later fsync will keep.
func (l *ledger) write(f *os.File, ino uint64, data []byte, at int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, err := l.of(f, ino)
	if err != nil {
		return 0, err
	}
	for block := at / diskBlock; block*diskBlock < at+int64(len(data)); block++ {
		if err := u.save(f, block); err != nil {
			return 0, err
		}
	}
	return f.WriteAt(data, at)
}

func (l *ledger) truncate(f *os.File, ino uint64, size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, err := l.of(f, ino)
	if err != nil {
		return err
	}
	for block := size / diskBlock; block*diskBlock < u.size; block++ {
		if err := u.save(f, block); err != nil {
			return err
		}
	}
	u.cut = u.cut || size < u.size
	return f.Truncate(size)
}

// synced marks a file's data as kept.
func (l *ledger) synced(f *os.File, ino uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.files[ino]
	if u == nil {
		return nil
	}
	if len(u.bad) == 0 {
		delete(l.files, ino)
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	u.size, u.cut, u.blocks = info.Size(), false, make(map[int64][]byte)
	return nil
}

// notSynced records a failed fsync.
func (l *ledger) notSynced(ino uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.files[ino]; u != nil {
		for block, before := range u.blocks {
			u.bad[block] = before
		}
		u.blocks = make(map[int64][]byte)
	}
}

// made records a new name: a file, a directory or a link.
func (l *ledger) made(dir uint64, name, path string, f *os.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ino := inodeAt(path)
	l.names = append(l.names, nameChange{verb: nameMade, dir: dir, ino: ino, name: name})
	if f == nil {
		return nil
	}
	delete(l.files, ino) // of an earlier file with this number
	_, err := l.of(f, ino)
	return err
}

// put reserves a place in gone.
func (l *ledger) put() string {
	l.removed++
	return filepath.Join(l.gone, fmt.Sprint(l.removed))
}

// remove removes a name; its file can come back.
func (l *ledger) remove(dir uint64, name, path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := nameChange{verb: nameRemoved, dir: dir, ino: inodeAt(path), name: name, kept: l.put()}
	if err := os.Rename(path, c.kept); err != nil {
		return err
	}
	l.names = append(l.names, c)
	return nil
}

// move renames; it overwrites a file at the target and refuses a directory.
func (l *ledger) move(dir uint64, name, path string, toDir uint64, toName, toPath string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := nameChange{verb: nameMoved, dir: dir, ino: inodeAt(path), name: name, toDir: toDir, to: toName}
	if info, err := os.Lstat(toPath); err == nil {
		if info.IsDir() {
			return syscall.ENOTEMPTY
		}
		c.kept = l.put()
		if err := os.Link(toPath, c.kept); err != nil {
			return err
		}
	}
	if err := os.Rename(path, toPath); err != nil {
		return err
	}
	l.names = append(l.names, c)
	return nil
}

// dirSynced keeps the changes made in a directory, and the changes that they build upon.
func (l *ledger) dirSynced(dir uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := make([]bool, len(l.names))
	for i := len(l.names) - 1; i >= 0; i-- {
		c := &l.names[i]
		if kept[i] = kept[i] || c.dir == dir || c.verb == nameMoved && c.toDir == dir; !kept[i] {
			continue
		}
		for k := range i {
			kept[k] = kept[k] || c.buildsOn(&l.names[k])
		}
	}
	var left []nameChange
	for i, c := range l.names {
		if !kept[i] {
			left = append(left, c)
		} else if c.kept != "" {
			_ = os.RemoveAll(c.kept)
		}
	}
	l.names = left
}

// buildsOn reports whether a change makes no sense without an earlier one: both are about one name or one file, or it
// removed the directory in which the earlier one was made.
func (c *nameChange) buildsOn(earlier *nameChange) bool {
	type place struct {
		dir  uint64
		name string
	}
	of := func(c *nameChange) []place {
		if c.verb == nameMoved {
			return []place{{c.dir, c.name}, {c.toDir, c.to}}
		}
		return []place{{c.dir, c.name}}
	}
	for _, p := range of(c) {
		if slices.Contains(of(earlier), p) {
			return true
		}
	}
	return c.ino == earlier.ino || c.verb == nameRemoved && earlier.dir == c.ino
}
