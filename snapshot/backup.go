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

// SaveStream writes a snapshot received as bytes from another node to a new file at path, readable by its owner only.
// The bytes are verified as they are written, and r must end where the snapshot does. The file appears complete and
// synced, or not at all; an existing file is never replaced.
func SaveStream(path string, r io.Reader) (rota.SnapshotInfo, error) {
	return save(path, func(w io.Writer) (rota.SnapshotInfo, error) { return Inspect(io.TeeReader(r, w)) })
}

// OpenFile opens a snapshot for Read or Inspect. It accepts regular files only: opening anything else could block
// forever.
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

// At returns an Opener of a file.
func At(path string) Opener {
	return func() (io.ReadCloser, error) { return OpenFile(path) }
}

// InspectFile verifies the file at path like Inspect.
func InspectFile(path string) (rota.SnapshotInfo, error) {
	info, err := InspectAll(At(path))
	if err != nil {
		return rota.SnapshotInfo{}, carried(opOpen, err, "%s is refused", path)
	}
	return info, nil
}

// InspectAll verifies the opened snapshot like Inspect.
func InspectAll(open Opener) (rota.SnapshotInfo, error) {
	r, err := open()
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	defer r.Close()
	return Inspect(r)
}

// save fills a temporary file next to path, syncs it, renames it and syncs the folder, in this order; at the first
// error it removes the temporary file.
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

// free returns an error if something exists at path, including a dangling link.
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

// name gives the temporary file its final name. A rename would replace a file created in the meantime; a hard link does
// not, and the temporary name is removed afterwards. On file systems without hard links it renames.
func name(temporary, path string) error {
	err := os.Link(temporary, path)
	if err == nil {
		// If the temporary name stays, it does no harm.
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
