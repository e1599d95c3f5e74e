package memory

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Limit returns how many bytes this process may use: the machine's memory, or less if its control groups limit
// it. 0 means unknown, as on systems other than Linux.
func Limit() uint64 { return memoryLimit("/") }

// memoryLimit is MemoryLimit with the file system at root.
func memoryLimit(root string) (least uint64) {
	take := func(bytes uint64) {
		if bytes > 0 && (least == 0 || bytes < least) {
			least = bytes
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "proc", "meminfo")); err == nil {
		take(machineMemory(string(text)))
	}
	groups, err := os.ReadFile(filepath.Join(root, "proc", "self", "cgroup"))
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, group
		if len(parts) < 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if parts[1] == "memory" { // version 1
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if parts[1] != "" {
			continue
		}
		// In a container the group may have the host's name for it: a missing file means nothing.
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			if text, err := os.ReadFile(filepath.Join(root, mount, group, file)); err == nil {
				bytes, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // or max
				take(bytes)
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// machineMemory returns MemTotal of /proc/meminfo plus the part that the kernel reserves: on a machine of 4 GiB that is
// a sixteenth at most.
func machineMemory(meminfo string) uint64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 50)
			if err != nil {
				return 0
			}
			return kib<<10 + kib<<10/15
		}
	}
	return 0
}
