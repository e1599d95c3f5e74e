package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// SocketPath returns the path of a node's own socket, which only the account that it runs as, and root, can use.
func SocketPath(data string) string { return filepath.Join(data, "rota.sock") }

// listenLocal opens the socket of a data directory, which this process has locked: a socket left there by an earlier
// process is unused.
func listenLocal(data string) (*net.UnixListener, error) {
	path := SocketPath(data)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = lis.Close()
		return nil, err
	}
	return lis, nil
}
