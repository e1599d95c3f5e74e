package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rotasched/rota"
)

// SaveStream writes a snapshot that comes as bytes, from another node, to a new file at
// path, readable by its owner only. The bytes are verified as they are written, and r must
// end where the snapshot does. The file is there whole and on disk, or not at all; one that
// is there already is never replaced.
func SaveStream(path string, r io.Reader) (rota.SnapshotInfo, error) {
	return save(path, func(w io.Writer) (rota.SnapshotInfo, error) { return Inspect(io.TeeReader(r, w)) })
}

// OpenFile opens a snapshot for Read or Inspect. It takes regular files only: to
// open anything else could wait for ever.
func OpenFile(path string) (*os.File, error) {
	stat, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &rota.Error{Kind: rota.KindNotFound, Op: opOpen, Subject: path,
			Text: "file not found: " + path}
	}
	if err != nil {
		return nil, carried(opOpen, err, "%s cannot be opened", path)
	}
	if !stat.Mode().IsRegular() {
		return nil, &rota.Error{Kind: rota.KindInvalid, Op: opOpen, Subject: path,
			Text: path + " is not a regular file"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, carried(opOpen, err, "%s cannot be opened", path)
	}
	return f, nil
}

// Opener opens a snapshot or backup from its beginning, as often as it is called.
type Opener func() (io.ReadCloser, error)

// At opens a file.
func At(path string) Opener {
	return func() (io.ReadCloser, error) { return OpenFile(path) }
}

// InspectFile verifies the file at path as Inspect does.
func InspectFile(path string) (rota.SnapshotInfo, error) {
	info, err := InspectAll(At(path))
	if err != nil {
		return rota.SnapshotInfo{}, carried(opOpen, err, "%s is refused", path)
	}
	return info, nil
}

// InspectAll verifies what is opened as Inspect does.
func InspectAll(open Opener) (rota.SnapshotInfo, error) {
	r, err := open()
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	defer r.Close()
	return Inspect(r)
}

// save fills a temporary file beside path, syncs it, gives it its name and syncs
// the folder, in this order; at the first error the temporary file is removed.
func save(path string, fill func(io.Writer) (rota.SnapshotInfo, error)) (info rota.SnapshotInfo, err error) {
	if err := free(path); err != nil {
		return info, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return info, carried(opSave, err, "cannot create a file next to %s", path)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if info, err = fill(f); err != nil {
		_ = f.Close()
		return rota.SnapshotInfo{}, carried(opSave, err, "%s was not written", path)
	}
	if err := errors.Join(f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return rota.SnapshotInfo{}, carried(opSave, err, "%s was not written to disk", path)
	}
	if err := name(f.Name(), path); err != nil {
		return rota.SnapshotInfo{}, err
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return rota.SnapshotInfo{}, carried(opSave, err,
			"%s is written, but its name may not outlive a power cut", path)
	}
	return info, nil
}

// free refuses a path at which something is, a dangling link too.
func free(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return inTheWay(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return carried(opSave, err, "%s cannot be looked up", path)
	}
}

func inTheWay(path string) error {
	return &rota.Error{Kind: rota.KindConflict, Op: opSave, Subject: path,
		Text: fmt.Sprintf("%s is there already and is not replaced: give another name or move it away", path)}
}

// name gives the temporary file its name. A rename would replace a file that
// came in the meantime; a second name for it does not, and the first is removed.
// File systems without second names get the rename.
func name(temporary, path string) error {
	err := os.Link(temporary, path)
	if err == nil {
		// Should the first name stay after all, it harms nobody.
		_ = os.Remove(temporary)
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return inTheWay(path)
	}
	if err := free(path); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return carried(opSave, err, "%s cannot be named", path)
	}
	return nil
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
