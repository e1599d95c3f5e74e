package fault

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options are the options of a run.
type Options struct {
	Duration time.Duration
	Seed     uint64
	Nodes    int
	Workers  int
	// Rate is jobs submitted a second, all producers together.
	Rate int
	// Rota is the binary; it is built if none is given.
	Rota string
	// Keep is the directory for data, logs, history and report; if none is given a temporary directory is used and its
	// data removed after success.
	Keep string
	// Via selects how nodes and workers run: viaProcesses or viaDocker.
	Via string
	// Network is auto, namespaces or loopback; for processes.
	Network string
	// Locked enables TLS, tokens and least rights; otherwise every caller has all rights.
	Locked bool
	// Recover loses a node, and then a majority of the disks, for good after the run.
	Recover bool
	// Only lists the nemeses to use; all if empty.
	Only []string
	// Recheck judges a saved history instead of running.
	Recheck string
	JSON    bool
	// Prepared means that the caller made the binary and chose the network.
	Prepared bool
}

// How nodes and workers run.
const (
	viaProcesses = "processes"
	ViaDocker    = "docker"
)

const (
	maxDuration = time.Hour
	// OpsPerSecond bounds the operations that a history keeps for each second.
	OpsPerSecond = 2_000
)

// ParseOptions reads the command line.
func ParseOptions(args []string, stderr io.Writer) (o Options, err error) {
	flags := flag.NewFlagSet("jepsen-lite", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var output, only string
	flags.DurationVar(&o.Duration, "duration", time.Minute, "how long faults and load go on")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the plan of faults and of the load")
	flags.IntVar(&o.Nodes, "nodes", 3, "nodes that found the cluster")
	flags.IntVar(&o.Workers, "workers", 4, "worker processes")
	flags.IntVar(&o.Rate, "rate", 300, "jobs submitted a second")
	flags.StringVar(&o.Rota, "rota", "", "the rota binary (default: built from this module)")
	flags.StringVar(&o.Keep, "keep", "", "directory in which all stays (default: a temporary one)")
	flags.StringVar(&o.Via, "via", viaProcesses, "processes, or docker (containers of docker-compose.yml)")
	flags.StringVar(&o.Network, "network", "auto", "auto, namespaces (partitions) or loopback (none)")
	flags.BoolVar(&o.Locked, "locked", false, "TLS, and users with tokens that grant no more than they need")
	flags.BoolVar(&o.Recover, "recover", false,
		"after the run a node dies for good; then a majority of the disks is lost, and one that is left recovered")
	flags.StringVar(&only, "nemeses", "", "comma-separated names of the faults to use, all if empty: "+nemesisNames())
	flags.StringVar(&o.Recheck, "recheck", "", "judge this saved history.json.gz again instead of running")
	flags.StringVar(&output, "o", "text", "text or json")
	flags.BoolVar(&o.Prepared, "prepared", false, "internal: the binary is made and the network chosen")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if only != "" {
		o.Only = strings.Split(only, ",")
	}
	o.JSON = output == "json"
	var faults []string
	for _, f := range []struct {
		wrong bool
		text  string
	}{
		{flags.NArg() > 0, "arguments are not taken"},
		{output != "text" && output != "json", "-o is text or json"},
		{o.Duration < time.Second || o.Duration > maxDuration, "--duration is 1s to 1h"},
		{o.Nodes < 1 || o.Nodes > 9, "--nodes is 1 to 9"},
		{o.Workers < 1 || o.Workers > 32, "--workers is 1 to 32"},
		{o.Rate < 1 || o.Rate > 2000, "--rate is 1 to 2000"},
		{!slices.Contains([]string{"auto", "namespaces", "loopback"}, o.Network),
			"--network is auto, namespaces or loopback"},
		{!slices.Contains([]string{viaProcesses, ViaDocker}, o.Via), "--via is processes or docker"},
		{o.Via == ViaDocker && o.Locked, "--locked is for --via processes"},
		{o.Via == ViaDocker && o.Network != "auto", "--network is for --via processes"},
		{o.Via == ViaDocker && o.Recover, "--recover is for --via processes"},
		{o.Nodes < 3 && o.Recover, "--recover wants --nodes 3 or more"},
	} {
		if f.wrong {
			faults = append(faults, f.text)
		}
	}
	for _, name := range o.Only {
		if !slices.ContainsFunc(nemeses, func(n nemesis) bool { return n.name == name }) {
			faults = append(faults, fmt.Sprintf("--nemeses %q is unknown", name))
		}
	}
	if len(faults) > 0 {
		return o, fmt.Errorf("%s", strings.Join(faults, "; "))
	}
	return o, nil
}

func nemesisNames() string {
	var names []string
	for _, n := range nemeses {
		names = append(names, n.name)
	}
	return strings.Join(names, ", ")
}

// allows reports whether a nemesis may be used.
func (o *Options) allows(nemesis string) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, nemesis)
}

// Command returns the command that repeats the run.
func (o *Options) Command() string {
	s := fmt.Sprintf("go run ./test/jepsen-lite --duration %s --seed %d --nodes %d --workers %d --rate %d --network %s",
		o.Duration, o.Seed, o.Nodes, o.Workers, o.Rate, o.Network)
	if o.Via == ViaDocker {
		s = strings.Replace(s, "--network auto", "--via docker", 1)
	}
	if o.Locked {
		s += " --locked"
	}
	if o.Recover {
		s += " --recover"
	}
	if len(o.Only) > 0 {
		s += " --nemeses " + strings.Join(o.Only, ",")
	}
	return s + " -o json"
}

// Args returns the same for the run in its own network.
func (o *Options) Args() []string {
	format := "text"
	if o.JSON {
		format = "json"
	}
	return []string{"--duration", o.Duration.String(), "--seed", fmt.Sprint(o.Seed), "--nodes", fmt.Sprint(o.Nodes),
		"--workers", fmt.Sprint(o.Workers), "--rate", fmt.Sprint(o.Rate), "--rota", o.Rota, "--keep", o.Keep,
		"--via", o.Via, "--network", o.Network, "--nemeses", strings.Join(o.Only, ","), "-o", format, "--prepared",
		fmt.Sprintf("--locked=%t", o.Locked), fmt.Sprintf("--recover=%t", o.Recover)}
}
