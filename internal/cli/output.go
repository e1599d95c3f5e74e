package cli

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

// OutputUsage is what -o says of itself.
var OutputUsage = "`format` of the output: " + strings.Join(formats, ", ")

// Listing is a list on its way to stdout. whole is its JSON object,
// {"<plural noun>": […]}.
type Listing[T any] struct {
	Whole   any
	Items   []T
	Name    func(T) string
	Columns []Column[T]
}

// Print writes the list in the format asked for.
func (l *Listing[T]) Print(a *App) error {
	switch a.Output {
	case "table", "wide":
		_, err := io.WriteString(a.Stdout, RenderList(l.Columns, l.Items, a.Output == "wide"))
		return err
	case "jsonl":
		for i := range l.Items {
			if err := WriteJSON(a.Stdout, l.Items[i], ""); err != nil {
				return err
			}
		}
		return nil
	case "name":
		for i := range l.Items {
			if _, err := fmt.Fprintln(a.Stdout, l.Name(l.Items[i])); err != nil {
				return err
			}
		}
		return nil
	default:
		return WriteValue(a.Stdout, a.Output, l.Whole)
	}
}

// PrintAll prints a whole list, whose JSON has the items under a plural noun.
func PrintAll[T any](a *App, noun string, items []T, name func(T) string, columns []Column[T]) error {
	if items == nil {
		items = []T{}
	}
	l := Listing[T]{Whole: map[string]any{noun: items}, Items: items, Name: name, Columns: columns}
	return l.Print(a)
}

// PrintOne writes one object in the format asked for; rows is its table.
func (a *App) PrintOne(value any, names []string, rows func(wide bool) string) error {
	switch a.Output {
	case "table", "wide":
		_, err := io.WriteString(a.Stdout, rows(a.Output == "wide"))
		return err
	case "name":
		for _, n := range names {
			if _, err := fmt.Fprintln(a.Stdout, n); err != nil {
				return err
			}
		}
		return nil
	default:
		return WriteValue(a.Stdout, a.Output, value)
	}
}

// WriteValue writes one value as json (indented), jsonl (one line) or yaml.
func WriteValue(w io.Writer, format string, value any) error {
	switch format {
	case "json":
		return WriteJSON(w, value, "  ")
	case "jsonl":
		return WriteJSON(w, value, "")
	default:
		return WriteYAML(w, value)
	}
}

// WriteJSON writes a value as JSON. Control characters that JSON lets stand, U+007F to
// U+009F, are escaped: a terminal may take them for commands.
func WriteJSON(w io.Writer, value any, indent string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	if _, err := w.Write(EscapeControls(text.Bytes())); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// EscapeControls returns JSON with U+007F to U+009F, which stand only in strings, escaped.
func EscapeControls(text []byte) []byte {
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

// WriteYAML writes the value's JSON as YAML: the same names, the same order,
// the same numbers. Going through JSON text keeps one source of both shapes.
func WriteYAML(w io.Writer, value any) error {
	var text bytes.Buffer
	if err := WriteJSON(&text, value, ""); err != nil {
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

// OneLine returns a text without line ends and wide gaps.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Colours reports whether stdout shows colours and is wanted to.
func (a *App) Colours() bool {
	for _, e := range a.Environ {
		name, value, _ := strings.Cut(e, "=")
		if name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			return false
		}
	}
	return Terminal(a.Stdout)
}
