package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/rotasched/rota"
)

// Column is one column of a list's table. Wide ones appear with -o wide only;
// most trims what is longer, 0 for never.
type Column[T any] struct {
	Head string
	Wide bool
	Most int
	Cell func(T) any
}

// plainStyle has no frames: tables are read by eye and by awk.
func plainStyle() table.Style {
	s := table.StyleDefault
	s.Options = table.Options{}
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	return s
}

// RenderList draws a table of items; wide adds the wide columns.
func RenderList[T any](columns []Column[T], items []T, wide bool) string {
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	t.SuppressTrailingSpaces()
	var head table.Row
	var shown []Column[T]
	for _, c := range columns {
		if c.Wide && !wide {
			continue
		}
		shown = append(shown, c)
		head = append(head, c.Head)
	}
	t.AppendHeader(head)
	for _, item := range items {
		row := make(table.Row, len(shown))
		for i, c := range shown {
			row[i] = cell(c.Cell(item), c.Most, wide)
		}
		t.AppendRow(row)
	}
	return t.Render() + "\n"
}

// Fact is one line of a show-like table.
type Fact struct {
	Name  string
	Value any
}

// RenderFacts shows one object, a fact a line; empty ones are left out.
func RenderFacts(facts []Fact) string {
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	t.SuppressTrailingSpaces()
	for _, f := range facts {
		if v := cell(f.Value, 0, true); v != "" {
			t.AppendRow(table.Row{f.Name, v})
		}
	}
	return t.Render() + "\n"
}

// cell keeps numbers as numbers (they align right) and makes the rest safe to
// show: what comes from users may not move the cursor.
func cell(v any, most int, wide bool) any {
	switch v := v.(type) {
	case int, int32, int64, uint32, uint64, float64:
		return v
	case nil:
		return ""
	default:
		s := Clean(fmt.Sprint(v))
		if most > 0 && !wide {
			s = text.Snip(s, most, "…")
		}
		return s
	}
}

// Clean replaces what is not printable.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		return '·'
	}, s)
}

// Span shows milliseconds; "" for none.
func Span(ms int64) string {
	if ms == 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

// Joined joins names with commas.
func Joined[S ~string](list []S) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, ",")
}

// Or returns the second where the first is empty.
func Or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// RuleText names a rule: its name, and its value where it is for one.
func RuleText(r rota.KeyRule) string {
	if r.Value == "" {
		return r.Name
	}
	return r.Name + ":" + r.Value
}
