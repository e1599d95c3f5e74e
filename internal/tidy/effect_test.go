package tidy

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEffect(t *testing.T) {
	t.Parallel()
	tree, _ := setup(t)
	all := measures(tree)
	for _, m := range all {
		t.Logf("%7d  %s: %s", m.value, m.name, strings.Join(m.top, ", "))
	}
	goCount, markdown := countDialect(tree)
	for _, line := range append(goCount.byHabit(), markdown.byHabit()...) {
		t.Log(line)
	}
	if *update {
		if err := os.WriteFile("effect.txt", []byte(measuresText(all)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile("effect.txt")
	if err != nil {
		t.Fatal(err)
	}
	faults := checkMeasures(all, string(recorded))
	report(t, faults)
	if len(faults) > 0 {
		t.Error("if that is meant: `go test ./internal/tidy -run TestEffect -update`, and the commit explains the benefit of the rise")
	}
}

func TestEffect_measures(t *testing.T) {
	t.Parallel()
	tree, err := plant(map[string]string{
		"fsm/a.go": "package fsm\ntype Machine struct{}\nfunc (m *Machine) Apply() {}\ntype part struct{ m *Machine }\nfunc (p *part) do() {}\nfunc (p part) more() {}\n",
		"fsm/b.go": "package fsm\ntype free struct{ m Machine }\nfunc (f *free) do() {}\nfunc Long() {" +
			strings.Repeat("\n", functionReported) + "}\n",
		"fsm/a_test.go": "package fsm\ntype none struct{ m *Machine }\n",
		"test/x/x.go":   "package x\nvar X int\n",
		"sched/s.go":    "package sched\nconst A, B, C = 1, 2, 3\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	all := measures(tree)
	for _, m := range all {
		got[m.name] = m.value
	}
	for name, want := range map[string]int{
		"lines of product code": 6 + 3 + functionReported + 1 + 2, "files of the largest package": 2,
		"exported names of the largest package": 3,
		"methods of the largest type":           2, "functions of more than 70 lines": 1,
		"types of fsm that hold *Machine":  1,
		"methods in effect of fsm.Machine": 3, "types of cluster that hold *Node": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %d, want %d", name, got[name], want)
		}
	}
	record := measuresText(all)
	if !strings.HasPrefix(record, "1000\tlines of product code\n") {
		t.Errorf("the record is %q", record)
	}
	matches(t, checkMeasures(all, record), nil)
	at := slices.IndexFunc(all, func(m measure) bool { return m.name == "methods in effect of fsm.Machine" })
	all[at].value = 4
	matches(t, checkMeasures(all, record), []string{"rose from 3 to 4: the most are part 2, Machine 1"})
	all[at].value = 2
	matches(t, checkMeasures(all, record), nil)
	matches(t, checkMeasures(all[:at], "x\ty\n"+record)[:1], []string{"is not a figure"})
	matches(t, checkMeasures(nil, "7\tgone\n"), []string{"gone is no longer measured"})
}
