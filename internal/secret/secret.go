package secret

import (
	"fmt"
	"io"
	"os"

	"github.com/rotasched/rota"
)

// open is the permissions that a secret's file must not have: any for others, and write for its group, which could
// replace the secret.
const open = 0o027

// ReadFile reads a secret of at most most bytes. It refuses a file that others may read or its group may write: the
// secret may be known, or may be another one.
func ReadFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat() // of the open file, even if the path changes afterwards
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&open != 0 {
		return nil, rota.Refusef(rota.KindDenied, "secret",
			"%s is refused: it holds a secret, and its mode %04o opens it to others. "+
				"Run: chmod 600 %s", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}
