package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// lose destroys the data that was not synced: all of it if r is nil, otherwise the names after a moment and some of the
// blocks, which a disk is free to have written already. No process may have a file open.
func (l *ledger) lose(r *rand.Rand) (took lost, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stay := 0
	if r != nil {
		stay = r.IntN(len(l.names) + 1)
	}
	for i := len(l.names) - 1; i >= stay; i-- {
		err = errors.Join(err, l.undo(&l.names[i]))
	}
	took.Names, took.Stayed = len(l.names)-stay, stay
	err = errors.Join(err, filepath.WalkDir(l.data, func(path string, entry fs.DirEntry, werr error) error {
		if werr != nil || !entry.Type().IsRegular() {
			return werr
		}
		ino := inodeAt(path)
		u := l.files[ino]
		if u == nil {
			return nil
		}
		delete(l.files, ino) // it may have several names
		return u.restore(path, r, &took)
	}))
	l.names, l.files = nil, make(map[uint64]*unsynced)
	return took, errors.Join(err, os.RemoveAll(l.gone), os.Mkdir(l.gone, 0o700))
}

// restore resets a file to its contents at the last fsync.
func (u *unsynced) restore(path string, r *rand.Rand, took *lost) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := u.size
	for _, block := range sortedBlocks(u.blocks) {
		at := block * diskBlock
		if r != nil && !u.cut && r.IntN(2) == 0 {
			size = max(size, min(at+diskBlock, info.Size()))
			took.Stayed++
			continue
		}
		took.Blocks++
		if err := putBack(f, at, u.blocks[block], info.Size()); err != nil {
			return err
		}
	}
	for block, before := range u.bad {
		took.Blocks++
		if err := putBack(f, block*diskBlock, before, info.Size()); err != nil {
			return err
		}
	}
	return f.Truncate(size)
}

func sortedBlocks(blocks map[int64][]byte) []int64 {
	var numbers []int64
	for block := range blocks {
		numbers = append(numbers, block)
	}
	slices.Sort(numbers)
	return numbers
}

// putBack writes the earlier contents of a block, zeros if it did not exist.
func putBack(f *os.File, at int64, before []byte, size int64) error {
	if before == nil && at >= size {
		return nil
	}
	whole := make([]byte, diskBlock)
	copy(whole, before)
	_, err := f.WriteAt(whole, at)
	return err
}

// undo reverts one change of names. The directory of the change may be gone itself.
func (l *ledger) undo(c *nameChange) error {
	dir := l.find(c.dir)
	if dir == "" {
		return nil
	}
	path := filepath.Join(dir, c.name)
	switch c.verb {
	case nameMade:
		if inodeAt(path) == c.ino {
			return os.RemoveAll(path)
		}
	case nameRemoved:
		return os.Rename(c.kept, path)
	case nameMoved:
		to := l.find(c.toDir)
		if to == "" || inodeAt(filepath.Join(to, c.to)) != c.ino {
			return fmt.Errorf("%s was renamed to %s, which is not there", c.name, c.to)
		}
		if err := os.Rename(filepath.Join(to, c.to), path); err != nil {
			return err
		}
		if c.kept != "" {
			return os.Rename(c.kept, filepath.Join(to, c.to))
		}
	}
	return nil
}

// find returns the current path of a directory, empty if none: its path changes when one above it is renamed.
func (l *ledger) find(ino uint64) (found string) {
	_ = filepath.WalkDir(l.data, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && inodeAt(path) == ino {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found
}
