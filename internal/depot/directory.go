package depot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rotasched/rota"
)

const (
	// KeepLeast backups of a cluster never go, whatever is to be kept.
	KeepLeast = 3
	// asidePrefix and asideSuffix are around the name of a file that is no backup yet.
	asidePrefix, asideSuffix = ".rota-", ".part"
)

// Directory is a depot in a file system. Several clusters, and the nodes of one, may share it.
type Directory struct {
	path string
	// written is called in tests before what was written is read back.
	written func(path string)
}

// Open returns the depot in a directory that is there.
func Open(path string) (*Directory, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return nil, &rota.Error{Kind: rota.KindInvalid, Subject: "backup-to", Text: fmt.Sprintf("backups cannot go to %s: make the directory "+
			"first", path), Cause: err}
	}
	return &Directory{path: path}, nil
}

// Put stores what write writes under the name that check finds in it, reading it back. The
// backup is there whole, or not at all; one of that name that is there stays.
func (d *Directory) Put(ctx context.Context, by rota.NodeID, write func(io.Writer) error, check func(io.Reader) (Name, error)) (b Backup, err error) {
	aside := filepath.Join(d.path, asidePrefix+string(by)+asideSuffix)
	defer func() {
		if e := os.Remove(aside); err == nil && e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = fmt.Errorf("remove %s: %w", aside, e)
		}
	}()
	sum, err := fill(ctx, aside, write)
	if err != nil {
		return b, fmt.Errorf("write %s: %w", aside, err)
	}
	if d.written != nil {
		d.written(aside)
	}
	name, err := readBack(aside, sum, check)
	if err != nil {
		return b, fmt.Errorf("read %s back: %w", aside, err)
	}
	path := filepath.Join(d.path, name.String())
	if err := os.Link(aside, path); errors.Is(err, fs.ErrExist) {
		return d.look(name)
	} else if err != nil { // a file system without second names
		if err := os.Rename(aside, path); err != nil {
			return b, fmt.Errorf("name the backup: %w", err)
		}
	}
	if err := syncDirectory(d.path); err != nil {
		return b, err
	}
	return d.look(name)
}

// fill writes a file anew, syncs it, and returns the SHA-256 of what was to be in it.
func fill(ctx context.Context, path string, write func(io.Writer) error) (sum []byte, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if err := write(io.MultiWriter(live{ctx}, h, f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return h.Sum(nil), errors.Join(f.Sync(), f.Close())
}

// live refuses bytes once a context has ended.
type live struct{ ctx context.Context } //nolint:containedctx // a writer for one call

func (l live) Write(p []byte) (int, error) { return len(p), context.Cause(l.ctx) }

// readBack checks a file's bytes and what they mean.
func readBack(path string, sum []byte, check func(io.Reader) (Name, error)) (name Name, err error) {
	f, err := os.Open(path)
	if err != nil {
		return name, err
	}
	defer f.Close()
	h := sha256.New()
	r := io.TeeReader(f, h)
	if name, err = check(r); err != nil {
		return name, err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return name, err
	}
	if !bytes.Equal(h.Sum(nil), sum) {
		return name, errors.New("it holds other bytes than were written")
	}
	return name, nil
}

func (d *Directory) look(name Name) (Backup, error) {
	info, err := os.Stat(filepath.Join(d.path, name.String()))
	if err != nil {
		return Backup{}, err
	}
	return Backup{Name: name, File: filepath.Join(d.path, name.String()), Bytes: info.Size(), Made: rota.Date(info.ModTime().UnixMilli())}, nil
}

// List returns all backups, of whatever cluster; what is none is left out.
func (d *Directory) List() ([]Backup, error) {
	names, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	list := []Backup{}
	for _, n := range names {
		name, ok := ParseName(n.Name())
		if !ok || !n.Type().IsRegular() {
			continue
		}
		b, err := d.look(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another node took it away
		}
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

// Prune removes a cluster's oldest backups beyond keep, never the last KeepLeast, and returns
// them.
func (d *Directory) Prune(cluster rota.ClusterID, keep int) (gone []Backup, err error) {
	all, err := d.List()
	if err != nil {
		return nil, err
	}
	own := Of(all, cluster)
	own = own[:max(0, len(own)-max(keep, KeepLeast))]
	for i, b := range own {
		if err := os.Remove(b.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return own[:i], fmt.Errorf("remove a backup: %w", err)
		}
	}
	return own, nil
}

// Partial reports whether a file name is that of a backup that is being written, or whose
// writing was interrupted.
func Partial(name string) bool {
	return strings.HasPrefix(name, asidePrefix) && strings.HasSuffix(name, asideSuffix)
}

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
