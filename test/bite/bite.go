package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

const module = "github.com/rotasched/rota/"

// verdict is the result for a plant.
type verdict struct {
	took time.Duration
	// words are the output of the last checker that ran.
	words string
	// missed is why it does not count as caught, empty if it does.
	missed, output string
}

// bite plants a bug and runs its checkers.
func (p plant) bite(ctx context.Context, seed uint64, most time.Duration) verdict {
	started := time.Now()
	var v verdict
	for _, c := range p.checks {
		output, err := c.test(ctx, "plant_"+p.name, seed, most)
		v.words, v.missed = c.judge(output, err)
		if v.missed != "" {
			v.missed, v.output = c.name()+" "+v.missed, output
			break
		}
	}
	v.took = time.Since(started)
	return v
}

func (v verdict) line(p plant) string {
	var names []string
	for _, c := range p.checks {
		names = append(names, c.name())
	}
	if v.missed != "" {
		return fmt.Sprintf("%-23s MISSED after %.1f s: %s", p.name, v.took.Seconds(), v.missed)
	}
	return fmt.Sprintf("%-23s %s: caught in %.1f s: %s", p.name, strings.Join(names, " and "), v.took.Seconds(),
		v.words)
}

func (c check) name() string { return c.pkg + " " + strings.Trim(c.run, "^$") }

// test runs the checker with a build tag. It bypasses the test cache, and rapid leaves no file behind that the next
// sound run would repeat.
func (c check) test(ctx context.Context, tag string, seed uint64, most time.Duration) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	args := []string{"test", "-count=1", "-vet=off", "-tags", tag, "-run", c.run, "-timeout", most.String(),
		module + c.pkg}
	if c.drawn {
		args = append(args, "-rapid.nofailfile", fmt.Sprintf("-rapid.seed=%d", seed))
	}
	var b bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &b, &b, 5*time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return b.String(), err
}

// wrecks are failures that no checker caused.
var wrecks = []string{"[build failed]", "[setup failed]", "panic: ", "fatal error: ", "no tests to run",
	"unexpected signal"}

// judge returns the checker's message, or why the failure does not count.
func (c check) judge(output string, err error) (words, missed string) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", "passes with the bug in: it does not bite"
	case !errors.As(err, &exit) || exit.ExitCode() != 1:
		return "", fmt.Sprintf("did not come to its end: %v", err)
	}
	for _, w := range wrecks {
		if strings.Contains(output, w) {
			return "", fmt.Sprintf("ended with %q, which is not a checker's name", strings.TrimSpace(w))
		}
	}
	said := regexp.MustCompile(`(?m)^\s+\S+_test\.go:\d+: .*(?:\n\s{8,}.*)*`).FindAllString(output, -1)
	says := regexp.MustCompile(c.says)
	for _, s := range said {
		if at := says.FindStringIndex(s); at != nil && strings.Contains(output, "--- FAIL: Test") {
			from := strings.LastIndex(s[:at[0]], "\n") + 1
			return cut(strings.TrimSpace(s[from:]), 160), ""
		}
	}
	return "", fmt.Sprintf("failed, but not with %q", c.says)
}

// cut shortens to the first line, and that to most bytes.
func cut(s string, most int) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
