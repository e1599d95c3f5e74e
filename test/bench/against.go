package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// measureAgainst measures two binaries alternately, each with its own bench and its own cluster, only one of which is
// busy at a time.
func (p *plan) measureAgainst(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, p.against, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", p.against, err)
	}
	loads := p.loads()
	var there, here [][]result
	err = p.cluster(ctx, p.against, nil, func(old *servers) error {
		return p.cluster(ctx, p.rota, nil, func(s *servers) error {
			there, here, err = p.alternate(loads, func(args []string) (result, error) {
				return p.measure(ctx, p.against, old, args)
			},
				func(args []string) (result, error) { return p.measure(ctx, p.rota, s, args) })
			return err
		})
	})
	if err != nil {
		return err
	}
	text := m.markdown() + "Compared with: " + strings.Join(strings.Fields(string(out)), " ") + ".\n\n"
	return p.publish("bench-against", text+againstTable(loads, "before", "now", there, here))
}

// alternate makes each measurement of both alternately, as often as the plan specifies.
func (p *plan) alternate(loads []loadOf, old, now func(args []string) (result,
	error)) (there, here [][]result, err error) {
	there, here = make([][]result, len(loads)), make([][]result, len(loads))
	err = p.repeated(func(turn int) error {
		for i, l := range loads {
			a, err := old(l.args)
			if err != nil {
				return err
			}
			b, err := now(l.args)
			if err != nil {
				return err
			}
			p.say("%d of %d, %s: %.0f and %.0f jobs/s, servers %.0f and %.0f µs a job", turn, p.repeat, l.name,
				a.JobsPerS, b.JobsPerS, a.ServersCPUUs, b.ServersCPUUs)
			if turn > 0 {
				there[i], here[i] = append(there[i], a), append(here[i], b)
			}
		}
		return nil
	})
	return there, here, err
}

// againstTable returns the medians of both, and the median of the ratios of pairs, which drifts less with the machine
// than either.
func againstTable(loads []loadOf, old, now string, there, here [][]result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| load | median of %d pairs | %s | %s | %s ÷ %s (least to most) |\n|---|---|---:|---:|---:|\n",
		len(here[0]), old, now, now, old)
	for i, l := range loads {
		for _, row := range figures {
			olds, news, ratios := values(there[i], row.of), values(here[i], row.of), []float64{}
			for k := range news {
				if olds[k] > 0 {
					ratios = append(ratios, news[k]/olds[k])
				}
			}
			slices.Sort(olds)
			slices.Sort(news)
			slices.Sort(ratios)
			ratio := "not told"
			if len(ratios) > 0 {
				ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", median(ratios), ratios[0], ratios[len(ratios)-1])
			}
			fmt.Fprintf(&b, "| %s | %s | "+row.format+" | "+row.format+" | %s |\n", l.name, row.name, median(olds),
				median(news), ratio)
		}
	}
	return b.String()
}

func values(all []result, of func(*result) float64) []float64 {
	v := make([]float64, len(all))
	for i := range all {
		v[i] = of(&all[i])
	}
	return v
}
