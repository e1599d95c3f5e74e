package worker

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/rotasched/rota"
)

// MaxFileName is what file systems take of a name.
const MaxFileName = 255

// parentsDir is where a command finds what its node's parents put out: a file for
// each in a directory of its own, and beside that an index. The index is apart so
// that `cat "$ROTA_PARENTS"/*` gives the outputs and nothing else.
type parentsDir struct {
	root, outputs, index string
}

// parentFile is a line of the index.
type parentFile struct {
	Node         string     `json:"node"`
	Job          rota.JobID `json:"job"`
	File         string     `json:"file"`
	OutputDigest rota.Hex   `json:"output_digest"`
}

// newParentsDir writes outputs, in the order of the workflow, where only this user
// can read them. The caller removes it.
func newParentsDir(parents []rota.ParentOutput) (*parentsDir, error) {
	root, err := os.MkdirTemp("", "rota-parents-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for parents' outputs: %w", err)
	}
	d := &parentsDir{root: root, outputs: filepath.Join(root, "outputs"), index: filepath.Join(root, "index.json")}
	if err := d.fill(parents); err != nil {
		d.remove()
		return nil, fmt.Errorf("write parents' outputs: %w", err)
	}
	return d, nil
}

func (d *parentsDir) fill(parents []rota.ParentOutput) error {
	if err := os.Mkdir(d.outputs, 0o700); err != nil {
		return err
	}
	index := make([]parentFile, len(parents))
	for i, p := range parents {
		path := filepath.Join(d.outputs, ParentFileName(p.Node))
		if err := os.WriteFile(path, p.Output, 0o600); err != nil {
			return err
		}
		index[i] = parentFile{Node: p.Node, Job: p.Job, File: path, OutputDigest: p.OutputDigest}
	}
	text, err := json.MarshalIndent(map[string]any{"parents": index}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(d.index, append(text, '\n'), 0o600)
}

func (d *parentsDir) remove() { _ = os.RemoveAll(d.root) }

// ParentFileName makes a file's name of a node's id: escaped as in a URL, so that
// none leads out of the directory, none is hidden, and no two are the same.
func ParentFileName(node string) string {
	name := url.PathEscape(node)
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	if len(name) > MaxFileName {
		sum := fmt.Sprintf("~%x", sha256.Sum256([]byte(node)))
		name = name[:MaxFileName-len(sum)] + sum
	}
	return name
}
