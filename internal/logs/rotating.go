package logs

import (
	"errors"
	"os"
)

// rotating is a file of lines that never has more than most bytes: before it would, it replaces the previous file.
type rotating struct {
	path string
	most int64
	file *os.File
	size int64
}

// openRotating opens a file for appending. Only its owner can read it.
func openRotating(path string, most int64) (*rotating, error) {
	r := &rotating{path: path, most: most}
	err := r.open()
	return r, err
}

func (r *rotating) open() error {
	file, err := os.OpenFile(r.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r.file, r.size = file, info.Size()
	return nil
}

// write writes a line.
func (r *rotating) write(line []byte) error {
	if r.file == nil { // the last attempt to open it failed
		if err := r.open(); err != nil {
			return err
		}
	}
	if r.size > 0 && r.size+int64(len(line)) > r.most {
		if err := r.turn(); err != nil {
			return err
		}
	}
	n, err := r.file.Write(line)
	r.size += int64(n)
	return err
}

// turn renames the file to that of the previous one and starts a new file.
func (r *rotating) turn() error {
	err := r.close()
	if err == nil {
		err = os.Rename(r.path, r.path+".1")
	}
	return errors.Join(err, r.open())
}

func (r *rotating) close() error {
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}
