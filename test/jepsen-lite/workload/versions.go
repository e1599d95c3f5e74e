package workload

import (
	"os/exec"
	"runtime"
	"strings"
)

// versions returns those of the binary, of this program's compiler and of the host.
func versions(binary string) map[string]string {
	all := map[string]string{"go": strings.TrimPrefix(runtime.Version(), "go"),
		"host": runtime.GOOS + "/" + runtime.GOARCH}
	if out, err := exec.Command(binary, "version").Output(); err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		all["rota"] = strings.TrimSpace(strings.TrimPrefix(first, "rota "))
	}
	return all
}
