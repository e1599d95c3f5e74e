package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/rotasched/rota/internal/nearest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// EnvPrefix begins the environment twin of every flag.
const EnvPrefix = "ROTA_"

// settings are the twins of flags that the environment and the config file
// gave, kept apart so that an error can name its origin.
type settings struct {
	env, file *koanf.Koanf
	path      string
}

// envName is the environment twin of a flag.
func envName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Settle fills the flags that the command line did not give from the
// environment, then from the config file.
func (a *App) Settle(cmd *cobra.Command) error {
	if cmd.Name() == cobra.ShellCompRequestCmd || cmd.Name() == cobra.ShellCompNoDescRequestCmd {
		return nil
	}
	s, faults := a.readSettings(cmd)
	if s != nil {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Changed || f.Name == "config" || f.Name == "help" {
				return
			}
			if err := s.fill(f, cmd.Flags()); err != nil {
				faults = append(faults, err)
			}
		})
	}
	switch check := cmd.Flags().Lookup("check"); {
	case len(faults) == 0:
	case check != nil && check.Value.String() == "true":
		a.Unsettled = faults
	default:
		return faults.Err()
	}
	a.Output = cmd.Flags().Lookup("output").Value.String()
	a.TimeoutSet = cmd.Flags().Changed("timeout")
	if !slices.Contains(formats, a.Output) {
		return Unknown("output", "output format", a.Output, formats)
	}
	return nil
}

// readSettings reads the environment and the config file; nil is returned where neither can be
// gone by.
func (a *App) readSettings(cmd *cobra.Command) (*settings, StartFaults) {
	s := &settings{env: koanf.New("."), file: koanf.New(".")}
	twins := make(map[string]string)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { twins[envName(f.Name)] = f.Name })
	provider := env.Provider("", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return a.Environ },
		TransformFunc: func(name, value string) (string, any) {
			if value == "" {
				return "", nil
			}
			return twins[name], value
		},
	})
	if err := s.env.Load(provider, nil); err != nil {
		return nil, StartFaults{Usagef("read environment: %w", err)}
	}
	s.path = a.Config
	if s.path == "" {
		s.path = s.env.String("config")
	}
	if s.path == "" {
		return s, nil
	}
	if err := s.file.Load(file.Provider(s.path), yaml.Parser()); err != nil {
		return s, StartFaults{Usagef("read config file %s: %w", s.path, err)}
	}
	if err := s.refuseUnknown(cmd.Root()); err != nil {
		return s, StartFaults{err}
	}
	return s, nil
}

// refuseUnknown refuses keys that no command has. A key of another command is
// fine: one file may serve them all.
func (s *settings) refuseUnknown(root *cobra.Command) error {
	known := make(map[string]bool)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		note := func(f *pflag.Flag) { known[f.Name] = true }
		c.Flags().VisitAll(note)
		c.PersistentFlags().VisitAll(note)
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(root)
	delete(known, "help")
	delete(known, "config")
	names := slices.Sorted(maps.Keys(known))
	var unknown []string
	guesses := ""
	for _, key := range s.file.Keys() {
		if known[key] {
			continue
		}
		unknown = append(unknown, key)
		if near := nearest.Name(key, names); near != "" {
			guesses += "; for " + key + " did you mean " + near + "?"
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	sort.Strings(unknown)
	return Usagef("config file %s has unknown keys: %s; keys are the flags' names without dashes in front%s",
		s.path, strings.Join(unknown, ", "), guesses)
}

// fill sets one flag from the environment or else the file.
func (s *settings) fill(f *pflag.Flag, flags *pflag.FlagSet) error {
	from, value := "", any(nil)
	switch {
	case s.env.Exists(f.Name):
		from, value = "environment "+envName(f.Name), s.env.Get(f.Name)
	case s.file.Exists(f.Name) && s.file.Get(f.Name) != nil:
		from, value = "config file "+s.path+", key "+f.Name, s.file.Get(f.Name)
	default:
		return nil
	}
	if err := setFlag(f, flags, value); err != nil {
		return Usagef("%s: %w", from, err)
	}
	return nil
}

func setFlag(f *pflag.Flag, flags *pflag.FlagSet, value any) error {
	many, isMany := f.Value.(pflag.SliceValue)
	list, isList := value.([]any)
	if !isMany {
		if isList {
			return fmt.Errorf("got a list, want one value")
		}
		return flags.Set(f.Name, fmt.Sprint(value))
	}
	var texts []string
	if isList {
		for _, v := range list {
			texts = append(texts, fmt.Sprint(v))
		}
	} else {
		texts = strings.Split(fmt.Sprint(value), ",")
	}
	if err := many.Replace(texts); err != nil {
		return err
	}
	f.Changed = true
	return nil
}

// StartFaults are all faults that keep a node from starting.
type StartFaults []error

// Error implements error.
func (s StartFaults) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the faults.
func (s StartFaults) Unwrap() []error { return s }

// Err returns nil for none, and else an error with the exit code of the worst: a flag that is
// wrong comes before what else is.
func (s StartFaults) Err() error {
	if len(s) == 0 {
		return nil
	}
	usage := slices.ContainsFunc(s, func(err error) bool {
		var coded *CodedError
		return errors.As(err, &coded) && coded.Code == ExitUsage
	})
	if usage {
		return &CodedError{ExitUsage, s}
	}
	return &CodedError{ExitFailed, s}
}
