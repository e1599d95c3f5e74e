package operator

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/internal/logs"
)

const (
	// bundleManifest is kept free for the manifest, the last file.
	bundleManifest = 256 << 10
	// bundlePart is what a file costs besides its bytes: its header and the rest of a block.
	bundlePart = 1024
	// bundleMissing bounds what the manifest lists as missing.
	bundleMissing = 500
)

// bundle is an archive that grows to a bound: what does not fit is left out, and said so.
type bundle struct {
	root string
	made time.Time
	gzip *gzip.Writer
	tar  *tar.Writer
	left int64
	list bundleList
}

// bundleList is the file MANIFEST.
type bundleList struct {
	Made     time.Time         `json:"made"`
	By       serve.VersionInfo `json:"by"`
	Redacted bool              `json:"redacted"`
	MaxBytes int64             `json:"max_bytes"`
	Files    []bundleFile      `json:"files"`
	Missing  []bundleMissed    `json:"missing"`
}

// bundleFile is a file of the archive; Cut counts the bytes that are not in it.
type bundleFile struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	Cut   int64  `json:"cut,omitempty"`
}

// bundleMissed is what could not be had, and why.
type bundleMissed struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// newBundle begins an archive of at most so many bytes before compression.
func newBundle(to io.Writer, root string, most int64, made time.Time) *bundle {
	packed := gzip.NewWriter(to)
	return &bundle{root: root, made: made, gzip: packed, tar: tar.NewWriter(packed), left: most - bundleManifest,
		list: bundleList{Made: made, By: serve.ThisVersion(), MaxBytes: most, Files: []bundleFile{},
			Missing: []bundleMissed{}}}
}

// add adds a text, without what is secret in it.
func (b *bundle) add(name string, text []byte) error { return b.put(name, Scrub(text), 0) }

// addTail adds the end of a text, as much of it as fits.
func (b *bundle) addTail(name string, text []byte, cut int64) error {
	text = Scrub(text)
	if over := int64(len(text)) - (b.left - bundlePart); over > 0 && over < int64(len(text)) {
		text, cut = text[over:], cut+over
	}
	return b.put(name, text, cut)
}

// addJSON adds a value.
func (b *bundle) addJSON(name string, value any) error {
	var text bytes.Buffer
	if err := cli.WriteJSON(&text, value, "  "); err != nil {
		return err
	}
	return b.add(name, text.Bytes())
}

// put adds bytes as they are.
func (b *bundle) put(name string, data []byte, cut int64) error {
	if cost := int64(len(data)) + bundlePart; cost > b.left {
		b.miss(name, fmt.Sprintf("it has %d bytes, but only %d remain of --max-bytes", len(data),
			max(0, b.left-bundlePart)))
		return nil
	}
	b.left -= int64(len(data)) + bundlePart
	b.list.Files = append(b.list.Files, bundleFile{name, len(data), cut})
	return b.write(name, data)
}

func (b *bundle) write(name string, data []byte) error {
	err := b.tar.WriteHeader(&tar.Header{Name: b.root + "/" + name, Mode: 0o600, Size: int64(len(data)),
		ModTime: b.made, Format: tar.FormatPAX})
	if err == nil {
		_, err = b.tar.Write(data)
	}
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// miss notes what could not be had.
func (b *bundle) miss(name, why string) {
	if len(b.list.Missing) < bundleMissing {
		why = why[:min(len(why), 300)]
		b.list.Missing = append(b.list.Missing, bundleMissed{name, string(Scrub([]byte(why)))})
	}
}

// close adds the manifest and ends the archive.
func (b *bundle) close() error {
	text, err := json.MarshalIndent(b.list, "", "  ")
	if err == nil {
		err = b.write("MANIFEST", append(text, '\n'))
	}
	if err == nil {
		err = b.tar.Close()
	}
	if err == nil {
		err = b.gzip.Close()
	}
	return err
}

// Secrets that people put where none belongs. The name stays, the value goes.
var (
	privateKeys = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
	namedSecret = regexp.MustCompile(
		`(?i)\b([a-z_-]*(?:token|secret|passwd|password|passphrase|(?:gossip|access|private|api|encryption|signing)[ _-]?key)["']?\s*[=:]\s*)(?:"[^"\n]*"|'[^'\n]*'|[^\s"',;}]+)`)
	inAddress = regexp.MustCompile(`(://[^/\s:@]*):[^/\s@]+@`)
	bearers   = regexp.MustCompile(
		`(?i)(authorization["']?\s*[=:]\s*"?(?:bearer|basic)\s+|\bbearer\s+)[A-Za-z0-9._~+/=-]+`)
)

// Scrub takes secrets out of a text.
func Scrub(text []byte) []byte {
	text = []byte(logs.Mask(string(text)))
	text = privateKeys.ReplaceAll(text, []byte("(a private key)"))
	text = bearers.ReplaceAll(text, []byte("${1}…"))
	text = namedSecret.ReplaceAll(text, []byte("${1}…"))
	return inAddress.ReplaceAll(text, []byte("${1}:…@"))
}

// TailOf reads the last bytes of a file, from the beginning of a line on.
func TailOf(path string, most int64) (text []byte, cut int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a file", path)
	}
	if cut = max(0, info.Size()-most); cut > 0 {
		if _, err := file.Seek(cut, io.SeekStart); err != nil {
			return nil, 0, err
		}
	}
	text, err = io.ReadAll(io.LimitReader(file, most))
	if at := bytes.IndexByte(text, '\n'); cut > 0 && at >= 0 {
		text, cut = text[at+1:], cut+int64(at)+1 // a line that is cut may hide half of a secret
	}
	return text, cut, err
}

// saveBundle has fill write a new file, which is there as a whole or not at all; what is there
// already is left alone.
func saveBundle(path string, fill func(io.Writer) error) (size int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, cli.Failf("%s is there already: name another with --out", path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.tmp") // mode 0600
	if err != nil {
		return 0, cli.Failf("write %s: %w", path, err)
	}
	defer os.Remove(temp.Name()) // fails after the rename, as it should
	if err := fill(temp); err != nil {
		return 0, errors.Join(err, temp.Close())
	}
	info, err := temp.Stat()
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Link(temp.Name(), path) // refused where another came first
	}
	if err != nil {
		return 0, cli.Failf("write %s: %w", path, err)
	}
	return info.Size(), nil
}

// unnamed returns those of several names that are not wanted twice.
func unnamed(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}
