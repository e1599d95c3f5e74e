package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Counted is "1 lease open" or "3 leases open".
func Counted(n int64, one, how string) string {
	if n != 1 {
		one += "s"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", n, one, how))
}

// OfSome shows an amount where there is something that it is a part of.
func OfSome(part, whole int64) any {
	if whole == 0 {
		return nil
	}
	return part
}

// ReasonText names a reason, and nothing where there is none.
func ReasonText(r rota.Reason) string {
	if r == rota.ReasonNone {
		return ""
	}
	return r.String()
}

// LimitsText shows limits as --limit takes them, by name.
func LimitsText(limits map[string]int64) string {
	names := slices.Sorted(maps.Keys(limits))
	for i, name := range names {
		names[i] = fmt.Sprintf("%s=%d", name, limits[name])
	}
	return strings.Join(names, ",")
}

// ParseLimits takes the pairs of --limit.
func ParseLimits(pairs []string) (map[string]int64, error) {
	return ParsePairs("--limit", pairs, "depth=20", func(text string) (int64, error) {
		return strconv.ParseInt(text, 10, 64)
	})
}

// Between is how much of the cluster clock passed; "" where either is not reached.
func Between(from, to rota.Moment) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return Or(Span(int64(to.Clock-from.Clock)), "0s")
}

// Head is the beginning of a long text.
func Head(s string) string {
	const most = 72
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes; -o wide or json shows all)", len(s))
}

// LabelsText shows labels as name=value, by name.
func LabelsText(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ", ")
}

// About shows a duration with no more figures than it is worth; "" for none.
func About(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Second:
	case d < time.Minute:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Second)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// Prefixed puts a prefix before a text that is not empty.
func Prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// OrNone shows a limit of which 0 is none.
func OrNone(limit int64) any {
	if limit == 0 {
		return "none"
	}
	return limit
}

// Choices lets the shell complete a flag's values.
func Choices(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	// It fails for a flag that is not there, or done twice: the first call of a test shows it.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values,
		cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// Permille turns a ratio from 0 to 1 into whole permille.
func Permille(ratio float64) int64 {
	return int64(math.Round(ratio * 1000))
}

// ReadPayload returns the payload that --payload names, bounded.
func ReadPayload(arg string, stdin io.Reader) ([]byte, error) {
	from, name := io.Reader(nil), ""
	switch {
	case arg == "-":
		from, name = stdin, "stdin"
	case strings.HasPrefix(arg, "@"):
		file, err := os.Open(arg[1:])
		if err != nil {
			return nil, Usagef("read payload: %w", err)
		}
		defer file.Close()
		from, name = file, arg[1:]
	default:
		return []byte(arg), nil
	}
	payload, err := io.ReadAll(io.LimitReader(from, rota.MaxPayloadBytes+1))
	if err != nil {
		return nil, Usagef("read payload from %s: %w", name, err)
	}
	if len(payload) > rota.MaxPayloadBytes {
		return nil, Usagef("payload from %s too long: maximum %d bytes", name,
			rota.MaxPayloadBytes)
	}
	return payload, nil
}

// BoundResources bounds what a job takes and a worker offers.
func BoundResources(flags *pflag.FlagSet) {
	Within(flags, 0, rota.MaxCPUMilli, "cpu")
	Within(flags, 0, int64(rota.MaxMemoryBytes), "memory")
	Within(flags, 0, int64(rota.MaxIOBytesPerS), "io")
}

// AsFailure makes a refusal to start exit code 1, whatever its kind: the
// binary was called rightly, the node cannot be. A wrong flag stays usage.
func AsFailure(err error) error {
	if err == nil {
		return nil
	}
	var coded *CodedError
	if errors.As(err, &coded) {
		return err
	}
	return &CodedError{Code: ExitFailed, Err: err}
}

// VerdictError is nil when all nodes agree and none has a violation.
func VerdictError(v rota.Verdict) error {
	var wrong []string
	silent := false
	for _, n := range v.Nodes {
		switch {
		case n.Error != "":
			silent = true
			wrong = append(wrong, fmt.Sprintf("%s could not be asked: %s", n.ID, n.Error))
		case len(n.Violations) > 0:
			wrong = append(wrong, fmt.Sprintf("%s has %d violations", n.ID, len(n.Violations)))
		}
	}
	if !v.Equal && !(silent && toldAlike(v.Nodes)) {
		wrong = append(wrong, "the digests are not equal")
	}
	if len(wrong) == 0 {
		return nil
	}
	return &CodedError{Code: ExitFailed, Err: errors.New(strings.Join(wrong, "; "))}
}

// WorkflowEndedWell is nil when the workflow completed.
func WorkflowEndedWell(w *rota.Workflow) error {
	if w.State == rota.WorkflowCompleted {
		return nil
	}
	text := fmt.Sprintf("workflow %s ended %s", w.ID, w.State)
	if w.FailedNode != "" {
		text += fmt.Sprintf(": node %q was the first that did not complete", Head(w.FailedNode))
		if w.Reason != rota.ReasonNone {
			text += " (" + w.Reason.String() + ")"
		}
		text += fmt.Sprintf("; see rota job show %s", shellWord(string(rota.NodeJobID(w.ID, w.FailedNode))))
	}
	return &CodedError{Code: ExitOtherwise, Err: fmt.Errorf("%s", text)}
}

// shellWord quotes a text that a shell would not take as one plain word.
func shellWord(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-/@%+=,", r)
	}) < 0
	if plain && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// toldAlike reports whether all digests that were told are one.
func toldAlike(nodes []rota.NodeVerdict) bool {
	var told []rota.Digest
	for _, n := range nodes {
		if n.Error == "" {
			told = append(told, n.Digest)
		}
	}
	return len(slices.Compact(told)) <= 1
}
