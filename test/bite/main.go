package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "names of plants, separated by commas")
	turn := flag.Int("rotate", 0, "plant N, in turn by --seed; 0 for all")
	seed := flag.Uint64("seed", 0, "whose turn it is, and what rapid draws from (0: another each time)")
	most := flag.Duration("timeout", 3*time.Minute, "most time for one checker, its build included")
	flag.Parse()
	chosen, err := choose(*only, *turn, *seed)
	if err != nil || flag.NArg() > 0 || *turn < 0 {
		fmt.Fprintln(os.Stderr, "bite:", err)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	caught := 0
	for _, p := range chosen {
		v := p.bite(ctx, *seed, *most)
		fmt.Println(v.line(p))
		if v.missed == "" {
			caught++
		} else {
			fmt.Println(indent(v.output))
		}
	}
	stop()
	fmt.Printf("caught %d of %d\n", caught, len(chosen))
	if caught < len(chosen) {
		os.Exit(1)
	}
}

func choose(only string, turn int, seed uint64) ([]plant, error) {
	if only == "" {
		if turn <= 0 {
			return plants, nil
		}
		return rotate(plants, turn, seed), nil
	}
	var chosen []plant
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(plants, func(p plant) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no plant %q", name)
		}
		chosen = append(chosen, plants[i])
	}
	return chosen, nil
}

// indent returns the end of an output.
func indent(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	lines = lines[max(0, len(lines)-40):]
	return "    " + strings.Join(lines, "\n    ")
}
