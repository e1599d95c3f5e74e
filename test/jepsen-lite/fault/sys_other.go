//go:build !linux

package fault

import (
	"errors"
	"syscall"

	"github.com/rotasched/rota/test/rig"
)

func networkAttributes() *syscall.SysProcAttr { return rig.Attributes() }
func routerAttributes() *syscall.SysProcAttr  { return rig.Attributes() }

func enterNetwork(string, []string, []string) error {
	return errors.New("network namespaces are known on Linux only")
}

const namespacesKnown = false
