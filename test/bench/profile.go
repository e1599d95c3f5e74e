package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// profileTop is the number of reported functions, profileSeconds the duration of a profile.
const (
	profileTop     = 10
	profileSeconds = 10
)

// spent is one function's share of all samples, in percent: by itself, and with all functions that it called.
type spent struct {
	name            string
	own, cumulative float64
}

// measureProfiles profiles all servers at maximum load, those of -against first, if given, and prints the result: it is
// out of date too soon to be kept in a page.
func (p *plan) measureProfiles(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	text := m.markdown()
	binaries := []struct{ name, rota string }{{"Now", p.rota}}
	if p.against != "" {
		out, err := exec.CommandContext(ctx, p.against, "version").Output()
		if err != nil {
			return fmt.Errorf("%s version: %w", p.against, err)
		}
		binaries = append([]struct{ name, rota string }{{"Before (" + strings.Join(strings.Fields(string(out)), " ") +
			")", p.against}},
			binaries...)
	}
	for _, one := range binaries {
		var own, cumulative []spent
		err := p.cluster(ctx, one.rota, nil, func(s *servers) (err error) {
			own, cumulative, err = p.profile(ctx, one.rota, s)
			return err
		})
		if err != nil {
			return err
		}
		p.say("%s is profiled", one.rota)
		text += one.name + ":\n\n" + profileTable(own, cumulative) + "\n"
	}
	text += fmt.Sprintf(
		"CPU samples of all three servers over %d s of `rota bench %s` after one round that does not count.\n",
		profileSeconds, strings.Join(p.closed(), " "))
	fmt.Print(text)
	return nil
}

// profile keeps the servers busy while they are profiled.
func (p *plan) profile(ctx context.Context, rota string, s *servers) (own, cumulative []spent, err error) {
	if _, err := p.measure(ctx, rota, s, p.closed()); err != nil {
		return nil, nil, err
	}
	busy, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	var failed error
	wait.Go(func() {
		for busy.Err() == nil {
			if _, err := p.measure(busy, rota, s, p.closed()); err != nil {
				if busy.Err() == nil { // otherwise it was asked to end
					failed = err
				}
				return
			}
		}
	})
	files := make([]string, len(s.Nodes))
	faults := make([]error, len(s.Nodes))
	var looking sync.WaitGroup
	for i, n := range s.Nodes {
		files[i] = filepath.Join(s.dir, fmt.Sprintf("cpu-%d", i))
		looking.Go(func() { faults[i] = download(ctx, n.Admin, files[i]) })
	}
	looking.Wait()
	stop()
	wait.Wait()
	if err := errors.Join(append(faults, failed)...); err != nil {
		return nil, nil, err
	}
	if own, err = topOf(ctx, files); err != nil {
		return nil, nil, err
	}
	cumulative, err = topOf(ctx, files, "-cum", "-focus=rotasched", "-show=rotasched")
	return own, cumulative, err
}

func download(ctx context.Context, admin, file string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*profileSeconds*time.Second+maxScrape)
	defer cancel()
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, profileSeconds)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("profile of a server: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New("profile of a server: " + answer.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, answer.Body)
	return errors.Join(err, f.Close())
}

func topOf(ctx context.Context, files []string, flags ...string) ([]spent, error) {
	args := append(append([]string{"tool", "pprof", "-top", "-nodecount=40"}, flags...), files...)
	cmd := exec.CommandContext(ctx, "go", args...)
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, talk.String())
	}
	return readTop(string(out)), nil
}

// readTop reads the lines of `go tool pprof -top`: flat, flat%, sum%, cum, cum%, name.
func readTop(text string) (all []spent) {
	for _, l := range strings.Split(text, "\n") {
		fields := strings.Fields(l)
		if len(fields) < 6 || !strings.HasSuffix(fields[1], "%") || !strings.HasSuffix(fields[4], "%") {
			continue
		}
		own, err1 := strconv.ParseFloat(strings.TrimSuffix(fields[1], "%"), 64)
		cumulative, err2 := strconv.ParseFloat(strings.TrimSuffix(fields[4], "%"), 64)
		if err1 == nil && err2 == nil && len(all) < profileTop {
			all = append(all, spent{strings.TrimPrefix(strings.Join(fields[5:], " "), "github.com/rotasched/"), own,
				cumulative})
		}
	}
	return all
}

func profileTable(own, cumulative []spent) string {
	var b strings.Builder
	b.WriteString("| by itself, % | function | with what it calls, % | function of rota |\n|---:|---|---:|---|\n")
	for i := range max(len(own), len(cumulative)) {
		cells := []string{"", "", "", ""}
		if i < len(own) {
			cells[0], cells[1] = fmt.Sprintf("%.1f", own[i].own), "`"+own[i].name+"`"
		}
		if i < len(cumulative) {
			cells[2], cells[3] = fmt.Sprintf("%.1f", cumulative[i].cumulative), "`"+cumulative[i].name+"`"
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}
