package secret

import (
	"bytes"
	"os"
	"sync"
	"time"
)

// Live is a secret in a file that may be replaced while the process runs. Several goroutines may use it.
type Live struct {
	path string
	most int64

	mu    sync.Mutex
	stamp stamp
	text  string
}

// stamp changes when a file does.
type stamp struct {
	size    int64
	changed time.Time
}

// NewLive returns the secret of at most most bytes in a file. Nothing is read yet.
func NewLive(path string, most int64) *Live { return &Live{path: path, most: most} }

// Now returns the secret without the space around it. If the file changed it reads it again, as ReadFile does.
func (l *Live) Now() (string, error) {
	var now stamp
	if info, err := os.Stat(l.path); err == nil {
		now = stamp{info.Size(), info.ModTime()}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != "" && now == l.stamp {
		return l.text, nil
	}
	text, err := ReadFile(l.path, l.most)
	if err != nil {
		return "", err
	}
	l.stamp, l.text = now, string(bytes.TrimSpace(text))
	return l.text, nil
}
