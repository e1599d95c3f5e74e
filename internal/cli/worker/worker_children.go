package worker

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/limits"
)

// childrenFile is where the command of a workflow's node says which nodes join the workflow
// as it completes.
type childrenFile struct {
	leftFile
	node string
}

// newChildrenFile makes one for a node.
func newChildrenFile(node string) (*childrenFile, error) {
	l, err := newLeftFile("ROTA_CHILDREN")
	return &childrenFile{l, node}, err
}

// of returns the children that a command left as it completed, nil for none. A file with any
// fault has none: the attempt fails.
func (c *childrenFile) of() (*rota.Growth, error) {
	text, err := c.read(limits.MaxChildrenFile + 1)
	if err != nil {
		return nil, err
	}
	if len(text) > limits.MaxChildrenFile {
		return nil, fmt.Errorf(
			"$ROTA_CHILDREN has more than %d bytes, the most that is read: let payloads name large data instead of holding it",
			limits.MaxChildrenFile)
	}
	g, err := flowfile.Children(text, c.node)
	if err != nil {
		return nil, fmt.Errorf("$ROTA_CHILDREN: %w", err)
	}
	return g, nil
}
