//go:build !linux

package fault

import (
	"errors"
	"os"
	"syscall"

	"github.com/rotasched/rota/test/rig"
)

func networkAttributes() *syscall.SysProcAttr { return rig.Attributes() }
func routerAttributes() *syscall.SysProcAttr  { return rig.Attributes() }

func enterNetwork(string, []string, []string) error {
	return errors.New("network namespaces are known on Linux only")
}

func openTun(string) (*os.File, error) { return nil, errors.New("known on Linux only") }

const namespacesKnown = false
