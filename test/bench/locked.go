package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// lockedRoles are the roles of the token that a load presents to locked servers: no more than it needs, so that each
// call is authorized.
const lockedRoles = "submitter,worker,operator"

// measureLocked measures one binary alternately open and locked: in the second cluster callers without a token have no
// rights, and the load presents one.
func (p *plan) measureLocked(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	loads := p.loads()
	var there, here [][]result
	err = p.cluster(ctx, p.rota, nil, func(free *servers) error {
		return p.cluster(ctx, p.rota, nil, func(s *servers) error {
			if err := s.lock(ctx, p.rota); err != nil {
				return err
			}
			there, here, err = p.alternate(loads, func(args []string) (result, error) {
				return p.measure(ctx, p.rota, free, args)
			},
				func(args []string) (result, error) { return p.measure(ctx, p.rota, s, args) })
			return err
		})
	})
	if err != nil {
		return err
	}
	return p.publish("bench-locked", m.markdown()+againstTable(loads, "open", "locked", there, here))
}

// lock makes the first token of a cluster and one for the load. Callers without a token are refused from then on, which
// is verified.
func (s *servers) lock(ctx context.Context, rota string) error {
	root, err := said(ctx, nil, rota, "auth", "init", "--data", s.Nodes[0].Dir)
	if err != nil {
		return err
	}
	token, err := said(ctx, []string{"ROTA_TOKEN=" + root}, rota, s.withAddr("auth",
		[]string{"token", "create", "--role", lockedRoles, "--expires", "1d"})...)
	if err != nil {
		return err
	}
	if _, err := said(ctx, nil, rota, s.withAddr("job", []string{"list"})...); err == nil {
		return fmt.Errorf("a caller without a token is not refused by servers that are locked")
	}
	s.shows = []string{"ROTA_TOKEN=" + token}
	return nil
}

// said returns the output of a command, without its end of line.
func said(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cmd.Environ(), env...)
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, args[0], err, talk.String())
	}
	return strings.TrimSpace(string(out)), nil
}
