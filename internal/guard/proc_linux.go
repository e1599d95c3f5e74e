package guard

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// descendants lists the processes below one, however they were started.
func descendants(root int) ([]int, error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	children := make(map[int][]int)
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	var below []int
	for next := children[root]; len(next) > 0; {
		var deeper []int
		for _, pid := range next {
			below = append(below, pid)
			deeper = append(deeper, children[pid]...)
			delete(children, pid) // a list that took long to collect may contain a cycle
		}
		next = deeper
	}
	return below, nil
}

// parentOf reads a process's parent; false if it has ended meanwhile. The name, in
// parentheses, may hold anything.
func parentOf(pid int) (int, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	at := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[at+1:])
	if at < 0 || len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
