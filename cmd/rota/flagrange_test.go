package main

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/worker"
)

// numeric are the types of flags that must have a range; types of other widths, and lists of numbers, begin with these
// names too.
var numeric = []string{"int", "uint", "float", "duration", "count"}

// beyond returns the values one below and one above a flag's range, as text.
func beyond(f *cli.RangedFlag) []string {
	switch least := f.Least.(type) {
	case float64:
		step := func(v, to float64) string { return strconv.FormatFloat(math.Nextafter(v, to), 'g', -1, 64) }
		return []string{step(least, math.Inf(-1)), step(f.Most.(float64), math.Inf(1)), "NaN", "Inf", "1e999"}
	case time.Duration:
		return []string{(least - 1).String(), (f.Most.(time.Duration) + 1).String()}
	default:
		below := new(big.Int).Sub(big.NewInt(f.Least.(int64)), big.NewInt(1))
		above := new(big.Int).Add(big.NewInt(f.Most.(int64)), big.NewInt(1))
		return []string{below.String(), above.String(), "18446744073709551615"}
	}
}

// TestEveryNumberHasARange walks all commands: a flag that is a number or a duration accepts the ends of its range and
// its default, and values beyond are refused with flag, value and range, exit code 2, before any connection.
func TestEveryNumberHasARange(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
			t.Error("a connection was made")
		}
	}()
	seen := 0
	check := func(cmd *cobra.Command, flag *pflag.Flag) {
		if !slices.ContainsFunc(numeric, func(kind string) bool { return strings.HasPrefix(flag.Value.Type(), kind) }) {
			return
		}
		seen++
		ranged, ok := flag.Value.(*cli.RangedFlag)
		if !ok {
			t.Errorf("%s --%s has no range: declare it with within", cmd.CommandPath(), flag.Name)
			return
		}
		for _, text := range []string{fmt.Sprint(ranged.Least), fmt.Sprint(ranged.Most), flag.DefValue} {
			if err := ranged.Set(text); err != nil {
				t.Errorf("%s --%s %s: %v", cmd.CommandPath(), flag.Name, text, err)
			}
		}
		for _, text := range beyond(ranged) {
			if ranged.OrZero && text == "0" {
				continue
			}
			var out, talk bytes.Buffer
			line := append(strings.Fields(cmd.CommandPath())[1:], "--addr", listener.Addr().String(),
				"--"+flag.Name+"="+text)
			code := run(line, nil, strings.NewReader(""), &out, &talk)
			for _, part := range []string{"--" + flag.Name + ": ", strconv.Quote(text), ranged.Span()} {
				if code != cli.ExitUsage || !strings.Contains(talk.String(), part) {
					t.Errorf("%v exits with %d and prints %q: %s is missing", line, code, talk.String(), part)
				}
			}
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { check(cmd, flag) })
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(rootCommand(&cli.App{}))
	if _ = listener.Close(); seen < 50 {
		t.Errorf("%d flags were seen", seen)
	}
	<-asked
}

// TestNumbersOutOfRange checks that they are refused from the command line, the environment and the file, and that a 0
// with a meaning is accepted.
func TestNumbersOutOfRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, flag, value, want string }{
		{"server --auto-degrade-usage -0.1", "--auto-degrade-usage", `"-0.1"`, "use a number such as 0.5, 0 to 1"},
		{"server --disk-low 51", "--disk-low", `"51"`, "use a whole number, 0 to 50"},
		{"server --archive-retention 59s", "--archive-retention", `"59s"`, "0, or 1m to 87600h"},
		{"server --snapshot-entries 63", "--snapshot-entries", `"63"`, "0, or 64 to 1000000"},
		{"job submit --max-runtime 2s", "--max-runtime", `"2s"`, "0, or 3s to 87600h"},
		{"job change j --ttl 3651d", "--ttl", `"3651d"`, "0 to 87600h"},
		{"job list --limit 0", "--limit", `"0"`, "1 or more"},
	} {
		code, _, stderr := rotaLine(strings.Fields(c.args)...)
		if code != cli.ExitUsage {
			t.Errorf("%s exits with %d: %s", c.args, code, stderr)
		}
		for _, part := range []string{c.flag, c.value, c.want} {
			if !strings.Contains(stderr, part) {
				t.Errorf("%s prints %q: %s is missing", c.args, stderr, part)
			}
		}
	}
	var out, talk bytes.Buffer
	code := run([]string{"job", "list", "--addr", "127.0.0.1:1"}, []string{"ROTA_LIMIT=0"}, strings.NewReader(""), &out,
		&talk)
	if code != cli.ExitUsage || !strings.Contains(talk.String(), "ROTA_LIMIT") ||
		!strings.Contains(talk.String(), "1 or more") {
		t.Errorf("ROTA_LIMIT=0 exits with %d: %s", code, talk.String())
	}
	for _, zero := range []string{"--archive-retention=0", "--archive-max-bytes=0", "--snapshot-every=0",
		"--scrub-every=0"} {
		if _, _, err := settled(t, nil, "server", zero); err != nil {
			t.Errorf("server %s: %v", zero, err)
		}
	}
}

// TestRetiredWorkersAreAskedFor shows RETIRED workers only on request.
func TestRetiredWorkersAreAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		all    bool
		status string
		want   string
	}{
		{false, "", "ACTIVE DRAINING SUSPENDED JAILED UNREACHABLE"},
		{true, "", "ACTIVE DRAINING SUSPENDED JAILED RETIRED UNREACHABLE"},
		{false, "retired", "RETIRED"},
		{false, "JAILED", "JAILED"},
	} {
		keep, err := worker.WorkersKept(c.all, c.status)
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for s := rota.WorkerActive; s <= rota.WorkerUnreachable; s++ {
			if keep(s) {
				shown = append(shown, s.String())
			}
		}
		if got := strings.Join(shown, " "); got != c.want {
			t.Errorf("all %v, status %q: got %s, want %s", c.all, c.status, got, c.want)
		}
	}
	if _, err := worker.WorkersKept(false, "gone"); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("an unknown status: %v", err)
	}
}

// TestMissingFlags checks that an error names the flag that is missing, not the field that it sets. An unknown command
// without a similar one refers to the help once.
func TestMissingFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"key set host --rate 10":      "--per is missing: the period of --rate, such as 1s (",
		"key set customer --group":    "--queue is missing: the queue whose keys --group serves in turn (",
		"budget set month --limit 10": "--unit is missing: the cost to limit, such as usd (",
		"job submit":                  "--type is missing: it selects the handler that runs the job (",
		"cluster zzz":                 "unknown command \"zzz\" of rota cluster (rota cluster --help shows the usage)",
	} {
		code, _, stderr := rotaLine(strings.Fields(args)...)
		if code != cli.ExitUsage || !strings.HasPrefix(stderr, "rota: "+want) {
			t.Errorf("%s exits with %d and prints %q, want %q", args, code, stderr, want)
		}
	}
}
