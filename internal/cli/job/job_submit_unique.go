package job

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
)

// registerUnique declares what a job is unique by.
func (f *SubmitFlags) registerUnique(flags *pflag.FlagSet) {
	u := &f.unique
	flags.StringVar(&u.Key, "unique-key", "", "unique `key`: only one job of a tenant holds it at a time")
	flags.StringSliceVar(&u.By, "unique-by", nil,
		"make the unique key of these `parts` instead: queue, type and args (the payload)")
	cli.DurationVar(flags, &u.Period, "unique-period", 0,
		"the key holds within the period, of this length such as 1h, in which the job is to run")
	flags.StringSliceVar(&u.Scope, "unique-scope", nil,
		"`phases` in which a job holds its key: pending, running, completed (default: the first two)")
	cli.DurationVar(flags, &u.Keep, "unique-keep", 0, "how long a completed job holds its key, at most 30d")
	flags.StringVar(&u.OnConflict, "unique-on-conflict", "",
		"`action` when another job holds the key: refuse, existing, replace, extend, after or collect (default: refuse)")
	cli.DurationVar(flags, &u.ExtendMax, "unique-extend-max", 0,
		"maximum delay by extend or collect, from submission (default: 1h)")
	cli.Within(flags, 0, rota.MaxDuration, "unique-period", "unique-extend-max")
	cli.Within(flags, 0, rota.MaxUniqueKeep, "unique-keep")
}

// uniqueness returns what the job is unique by; nil where no flag says anything of it.
func (f *SubmitFlags) uniqueness() *rota.Unique {
	u := f.unique
	for i, phase := range u.Scope {
		u.Scope[i] = strings.ToUpper(phase)
	}
	if u.Equal(&rota.Unique{}) {
		return nil
	}
	return &u
}

// uniqueText shows what a job is unique by, and who holds its key where another job does.
func uniqueText(j *rota.Job) string {
	u := j.Unique
	if u == nil {
		return ""
	}
	text := "by key " + u.Key
	if len(u.By) > 0 {
		text = "by " + strings.Join(u.By, ", ")
	}
	if u.Period > 0 {
		text += " in each " + cli.Span(u.Period.Milliseconds())
	}
	switch j.UniqueHolder {
	case "":
	case j.ID:
		text += ", which it holds"
	default:
		text += ", which job " + string(j.UniqueHolder) + " holds"
	}
	return text
}
