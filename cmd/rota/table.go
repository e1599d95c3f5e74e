package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/rotasched/rota"
)

// column is one column of a list's table. Wide ones appear with -o wide only;
// most trims what is longer, 0 for never.
type column[T any] struct {
	head string
	wide bool
	most int
	cell func(T) any
}

// plainStyle has no frames: tables are read by eye and by awk.
func plainStyle() table.Style {
	s := table.StyleDefault
	s.Options = table.Options{}
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	return s
}

func renderList[T any](columns []column[T], items []T, wide bool) string {
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	t.SuppressTrailingSpaces()
	var head table.Row
	var shown []column[T]
	for _, c := range columns {
		if c.wide && !wide {
			continue
		}
		shown = append(shown, c)
		head = append(head, c.head)
	}
	t.AppendHeader(head)
	for _, item := range items {
		row := make(table.Row, len(shown))
		for i, c := range shown {
			row[i] = cell(c.cell(item), c.most, wide)
		}
		t.AppendRow(row)
	}
	return t.Render() + "\n"
}

// fact is one line of a show-like table.
type fact struct {
	name  string
	value any
}

// renderFacts shows one object, a fact a line; empty ones are left out.
func renderFacts(facts []fact) string {
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	t.SuppressTrailingSpaces()
	for _, f := range facts {
		if v := cell(f.value, 0, true); v != "" {
			t.AppendRow(table.Row{f.name, v})
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
		s := clean(fmt.Sprint(v))
		if most > 0 && !wide {
			s = text.Snip(s, most, "…")
		}
		return s
	}
}

// clean replaces what is not printable.
func clean(s string) string {
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

// span shows milliseconds; "" for none.
func span(ms int64) string {
	if ms == 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

func joined[S ~string](list []S) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, ",")
}

// or returns the second where the first is empty.
func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// ruleText names a rule: its name, and its value where it is for one.
func ruleText(r rota.KeyRule) string {
	if r.Value == "" {
		return r.Name
	}
	return r.Name + ":" + r.Value
}
