package logs

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"sync"
	"time"
)

const (
	// deniedName is the file of denied calls.
	deniedName = "denied.log"
	// DeniedBytes is the maximum size of it and, separately, of the previous file: some days of a worker with a revoked
	// token.
	DeniedBytes = 32 << 20
	// deniedRate is the maximum number of lines per second, because strangers cause them.
	deniedRate = 100
	// maxText limits a text in a line that a caller may have influenced.
	maxText = 512
)

// Denial is a call that was refused because of its caller.
type Denial struct {
	Method    string `json:"method"`
	Principal string `json:"principal"`
	Peer      string `json:"peer"`
	Reason    string `json:"reason"`
	Request   string `json:"request"`
}

// denialLine is a line of the file.
type denialLine struct {
	Time time.Time `json:"time"`
	Denial
	// Dropped counts the denials before it that have no line.
	Dropped int64 `json:"dropped,omitempty"`
}

// Denials is the file of denied calls. No caller waits for its disk.
type Denials struct {
	log     *slog.Logger
	warned  Limiter
	file    *rotating
	lines   chan denialLine
	written chan struct{}

	mu      sync.Mutex
	second  int64 // since 1970, in which left lines may still be written
	left    int
	dropped int64
	closed  bool
}

// OpenDenials opens denied.log in a directory; log receives its errors.
func OpenDenials(dir string, log *slog.Logger) (*Denials, error) {
	return openDenials(filepath.Join(dir, deniedName), DeniedBytes, log)
}

func openDenials(path string, most int64, log *slog.Logger) (*Denials, error) {
	file, err := openRotating(path, most)
	if err != nil {
		return nil, err
	}
	d := &Denials{log: log, file: file, lines: make(chan denialLine, deniedRate), written: make(chan struct{})}
	go d.write()
	return d, nil
}

// Add writes a line, unless this second had too many or the disk is behind: then the next line gives the number of
// missing ones.
func (d *Denials) Add(x Denial) { d.addAt(x, time.Now()) }

func (d *Denials) addAt(x Denial, now time.Time) {
	for _, text := range []*string{&x.Method, &x.Principal, &x.Peer, &x.Reason, &x.Request} {
		*text = Mask((*text)[:min(len(*text), maxText)])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if s := now.Unix(); s != d.second {
		d.second, d.left = s, deniedRate
	}
	if d.left == 0 {
		d.dropped++
		return
	}
	select {
	case d.lines <- denialLine{Time: now.UTC(), Denial: x, Dropped: d.dropped}:
		d.left--
		d.dropped = 0
	default:
		d.dropped++
	}
}

// write writes lines until there are none left.
func (d *Denials) write() {
	defer close(d.written)
	for line := range d.lines {
		text, err := json.Marshal(line)
		if err == nil {
			err = d.file.write(append(text, '\n'))
		}
		if err == nil {
			continue
		}
		d.mu.Lock()
		d.dropped += 1 + line.Dropped
		d.mu.Unlock()
		if d.warned.Allow("") {
			d.log.Warn("a denied call has no line in "+deniedName, "error", err)
		}
	}
}

// Close writes the pending lines and closes the file.
func (d *Denials) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.lines)
	d.mu.Unlock()
	<-d.written
	return d.file.close()
}
