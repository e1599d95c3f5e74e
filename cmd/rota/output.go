package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// formats are the values of -o.
var formats = []string{"table", "wide", "json", "jsonl", "yaml", "name"}

// outputUsage is what -o says of itself.
var outputUsage = "`format` of the output: " + strings.Join(formats, ", ")

// listing is a list on its way to stdout. whole is its JSON object,
// {"<plural noun>": […]}.
type listing[T any] struct {
	whole   any
	items   []T
	name    func(T) string
	columns []column[T]
}

// print writes the list in the format asked for.
func (l *listing[T]) print(a *app) error {
	switch a.output {
	case "table", "wide":
		_, err := io.WriteString(a.stdout, renderList(l.columns, l.items, a.output == "wide"))
		return err
	case "jsonl":
		for i := range l.items {
			if err := writeJSON(a.stdout, l.items[i], ""); err != nil {
				return err
			}
		}
		return nil
	case "name":
		for i := range l.items {
			if _, err := fmt.Fprintln(a.stdout, l.name(l.items[i])); err != nil {
				return err
			}
		}
		return nil
	default:
		return writeValue(a.stdout, a.output, l.whole)
	}
}

// printAll prints a whole list, whose JSON has the items under a plural noun.
func printAll[T any](a *app, noun string, items []T, name func(T) string, columns []column[T]) error {
	if items == nil {
		items = []T{}
	}
	l := listing[T]{whole: map[string]any{noun: items}, items: items, name: name, columns: columns}
	return l.print(a)
}

// printOne writes one object in the format asked for; rows is its table.
func (a *app) printOne(value any, names []string, rows func(wide bool) string) error {
	switch a.output {
	case "table", "wide":
		_, err := io.WriteString(a.stdout, rows(a.output == "wide"))
		return err
	case "name":
		for _, n := range names {
			if _, err := fmt.Fprintln(a.stdout, n); err != nil {
				return err
			}
		}
		return nil
	default:
		return writeValue(a.stdout, a.output, value)
	}
}

// writeValue writes one value as json (indented), jsonl (one line) or yaml.
func writeValue(w io.Writer, format string, value any) error {
	switch format {
	case "json":
		return writeJSON(w, value, "  ")
	case "jsonl":
		return writeJSON(w, value, "")
	default:
		return writeYAML(w, value)
	}
}

// writeJSON writes a value as JSON. Control characters that JSON lets stand, U+007F to
// U+009F, are escaped: a terminal may take them for commands.
func writeJSON(w io.Writer, value any, indent string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	if _, err := w.Write(escapeControls(text.Bytes())); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// escapeControls returns JSON with U+007F to U+009F, which stand only in strings, escaped.
func escapeControls(text []byte) []byte {
	if !bytes.ContainsFunc(text, isLateControl) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if isLateControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// isLateControl reports whether r is one of the control characters behind ASCII's printable ones.
func isLateControl(r rune) bool { return r >= 0x7f && r <= 0x9f }

// writeYAML writes the value's JSON as YAML: the same names, the same order,
// the same numbers. Going through JSON text keeps one source of both shapes.
func writeYAML(w io.Writer, value any) error {
	var text bytes.Buffer
	if err := writeJSON(&text, value, ""); err != nil {
		return err
	}
	d := json.NewDecoder(&text)
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return e.Close()
}

// yamlNode reads one JSON value from d, keeping the order of its fields.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	scalar := func(tag, value string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}, nil
	}
	switch t := token.(type) {
	case json.Delim:
		return yamlComposite(d, t)
	case string:
		node := &yaml.Node{}
		node.SetString(t)
		if !yamlPlain(t) {
			node.Style = yaml.DoubleQuotedStyle
		}
		return node, nil
	case json.Number:
		if bytes.ContainsAny([]byte(t), ".eE") {
			return scalar("!!float", t.String())
		}
		return scalar("!!int", t.String())
	case bool:
		return scalar("!!bool", fmt.Sprint(t))
	default:
		return scalar("!!null", "null")
	}
}

func yamlComposite(d *json.Decoder, open json.Delim) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if open == '{' {
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
	}
	for d.More() {
		child, err := yamlNode(d)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, child)
	}
	_, err := d.Token() // the closing bracket
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	return node, err
}

// yamlPlain reports whether a text may stand without escapes.
func yamlPlain(s string) bool {
	for _, r := range s {
		if r < ' ' && r != '\n' || r == 0x7f || r == 0x85 || r == 0xfeff || r == 0xfffd || r == 0x2028 ||
			r == 0x2029 {
			return false
		}
	}
	return true
}

// oneLine returns a text without line ends and wide gaps.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// colours reports whether stdout shows colours and is wanted to.
func (a *app) colours() bool {
	for _, e := range a.environ {
		name, value, _ := strings.Cut(e, "=")
		if name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			return false
		}
	}
	return terminal(a.stdout)
}
