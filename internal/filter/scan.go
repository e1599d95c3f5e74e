package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// scanner reads terms one after the other: -name=value,value, where a value in double quotes
// may hold anything but such quotes.
type scanner struct {
	line string
	at   int
	// kinds are the terms that are looked for.
	kinds []kind
}

func (s *scanner) refuse(at int, format string, args ...any) error {
	return rota.Refusef(rota.KindInvalid, "filter", "at %d: %s", at+1, fmt.Sprintf(format, args...))
}

func (s *scanner) skipSpace() {
	for s.at < len(s.line) && strings.IndexByte(" \t\r\n", s.line[s.at]) >= 0 {
		s.at++
	}
}

// until returns the rest up to the first of some bytes.
func (s *scanner) until(end string) string {
	from := s.at
	if n := strings.IndexAny(s.line[from:], end); n >= 0 {
		s.at += n
	} else {
		s.at = len(s.line)
	}
	return s.line[from:s.at]
}

func (s *scanner) term() (t term, err error) {
	if s.line[s.at] == '-' {
		t.negate = true
		s.at++
	}
	begins := s.at
	name := s.until("=~<> \t\r\n\",")
	for i := range s.kinds {
		switch k := &s.kinds[i]; {
		case !strings.HasSuffix(k.name, "."):
			if k.name == name {
				t.kind = k
			}
		case strings.HasPrefix(name, k.name) && name != k.name:
			t.kind, t.arg = k, name[len(k.name):]
		}
	}
	if t.kind == nil {
		return t, s.refuse(begins, "unknown term %.40q: use %s", name, names(s.kinds))
	}
	i := slices.IndexFunc(t.ops, func(op string) bool { return strings.HasPrefix(s.line[s.at:], op) })
	if i < 0 {
		return t, s.refuse(s.at, "%s: use %s and %s", name, strings.Join(t.ops, " or "), t.want)
	}
	s.at += len(t.ops[i])
	for {
		begins = s.at
		v, err := s.value(t.ops[i])
		if err != nil {
			return t, err
		}
		if len(t.values) == limits.MaxFilterValues {
			return t, s.refuse(begins, "%s has more than %d values", name, limits.MaxFilterValues)
		}
		if t.read != nil && !t.read(&v) || t.read == nil && v.text == "" && !v.prefix {
			return t, s.refuse(begins, "%[2]s: got %.40[1]q; use %[3]s", s.line[begins:s.at], name, t.want)
		}
		t.values = append(t.values, v)
		if s.at == len(s.line) || s.line[s.at] != ',' {
			return t, nil
		}
		s.at++
	}
}

// value reads one value, whose end a comma or a space is.
func (s *scanner) value(op string) (v value, err error) {
	v.op = op
	begins := s.at
	if s.at < len(s.line) && s.line[s.at] == '"' {
		s.at++
		v.text = s.until(`"`)
		if s.at == len(s.line) {
			return v, s.refuse(begins, "the quotes are not closed")
		}
		if s.at++; s.at < len(s.line) && strings.IndexByte(", \t\r\n", s.line[s.at]) < 0 {
			return v, s.refuse(s.at, "use a comma or a space after closing quotes")
		}
	} else {
		v.text = s.until(", \t\r\n\"")
		if s.at < len(s.line) && s.line[s.at] == '"' {
			return v, s.refuse(s.at, "quotes must enclose a whole value")
		}
		if op == "=" {
			v.text, v.prefix = strings.CutSuffix(v.text, "*")
		}
	}
	return v, nil
}

// names lists terms with their operators.
func names(kinds []kind) string {
	var names []string
	for _, k := range kinds {
		name := k.name
		if strings.HasSuffix(name, ".") {
			name += "K"
		}
		for _, op := range k.ops {
			names = append(names, name+op)
		}
	}
	return strings.Join(names, " ")
}
