package memory

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMemoryLimit: the minimum of the machine's memory and the limits of all groups above a process counts.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const meminfo, mib = "MemTotal:        3932160 kB\nMemFree:         1 kB\n", 1 << 20 // 4 GiB minus a sixteenth
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"nothing is there":    {nil, 0},
		"the machine's alone": {map[string]string{"proc/meminfo": meminfo}, 4096 * mib},
		"no number":           {map[string]string{"proc/meminfo": "MemTotal: much\n"}, 0},
		"one beyond all":      {map[string]string{"proc/meminfo": "MemTotal: 18446744073709551615 kB\n"}, 0},
		"groups without bound": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n"}, 4096 * mib},
		"a group's": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1048576000\n"},
			1000 * mib},
		"a group's above it": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "1048576000\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 1000 * mib},
		"a container's, named as its host does": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "0::/../../pod/1\n", "sys/fs/cgroup/memory.max": "1048576000\n"}, 1000 * mib},
		"a group's of version 1": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "4:memory:/x\n1:cpu:/y\n0::/\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1048576000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n"}, 1000 * mib},
		"more than there is": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "9223372036854771712\n"},
			4096 * mib},
		"lines that are none": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "\n0\nx:memory\n"},
			4096 * mib},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := memoryLimit(root); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
