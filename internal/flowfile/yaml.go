package flowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxYAMLDepth bounds nesting, and with it aliases that hold themselves.
const maxYAMLDepth = 64

// yamlJSON turns a YAML tree into JSON text, aliases and merge keys resolved. left is how many bytes may still be
// written: a few aliases can expand to very much.
type yamlJSON struct{ left int }

// partsOfYAML takes a YAML file apart.
func partsOfYAML(text []byte) (*flowParts, error) {
	if len(text) > maxYAML {
		return nil, Faults{fmt.Sprintf("YAML file too long: maximum %d MiB, got %d; JSON may have %d",
			maxYAML>>20, len(text)>>20, maxFile>>20)}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := d.Decode(&document); err != nil {
		return nil, Faults{"not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, Faults{"got more than one YAML document: write one workflow per file"}
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, Faults{"a workflow is an object with id, nodes, edges, …: no such thing is in the file"}
	}
	w := &yamlJSON{left: maxFile / 4}
	p := &flowParts{fields: map[string]flowPart{}}
	root := document.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], target(root.Content[i+1])
		list := func(flowPart) ([]flowPart, error) { return w.list(value) }
		part := flowPart{line: key.Line, text: json.RawMessage("null")}
		if isList := key.Value == "nodes" || key.Value == "edges"; !isList {
			text, err := w.value(nil, value, 0)
			if err != nil {
				return nil, err
			}
			part.text = text
		} else if value.ShortTag() != "!!null" {
			part.text = json.RawMessage("[]")
		}
		if strings.HasPrefix(key.Value, "x-") || strings.HasPrefix(key.Value, ".") {
			continue // a place to define anchors, as compose files have
		}
		if err := p.add(key.Value, key.Line, part, list); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// list returns the elements of a YAML sequence, each with its line.
func (w *yamlJSON) list(n *yaml.Node) ([]flowPart, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, Faults{fmt.Sprintf("line %d: nodes and edges must be lists: write a line “- id: …” for each",
			n.Line)}
	}
	list := make([]flowPart, 0, len(n.Content))
	for _, element := range n.Content {
		text, err := w.value(nil, element, 0)
		if err != nil {
			return nil, err
		}
		list = append(list, flowPart{element.Line, text})
	}
	return list, nil
}

// value appends a node's JSON to out.
func (w *yamlJSON) value(out []byte, n *yaml.Node, depth int) ([]byte, error) {
	if depth > maxYAMLDepth {
		return nil, Faults{fmt.Sprintf("line %d: it is nested more than %d deep", n.Line, maxYAMLDepth)}
	}
	before := len(out)
	var err error
	switch n.Kind {
	case yaml.AliasNode:
		return w.value(out, n.Alias, depth+1)
	case yaml.MappingNode:
		out, err = w.object(out, n, depth)
	case yaml.SequenceNode:
		out = append(out, '[')
		for i, element := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = w.value(out, element, depth+1); err != nil {
				return nil, err
			}
		}
		out = append(out, ']')
	default:
		if out, err = yamlScalar(out, n); err == nil {
			w.left -= len(out) - before
		}
	}
	if w.left -= 2; err == nil && w.left < 0 {
		err = Faults{fmt.Sprintf("line %d: the file's aliases make it longer than %d MiB", n.Line, maxFile>>22)}
	}
	return out, err
}

// object appends a mapping's JSON: the fields of a merge key come first, so that the mapping's own keys override them.
func (w *yamlJSON) object(out []byte, n *yaml.Node, depth int) ([]byte, error) {
	fields, err := w.fields(n, depth)
	if err != nil {
		return nil, err
	}
	out = append(out, '{')
	for i := 0; i+1 < len(fields); i += 2 {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(fields[i].Value)
		if err != nil {
			return nil, err
		}
		w.left -= len(name)
		out = append(append(out, name...), ':')
		if out, err = w.value(out, fields[i+1], depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// fields returns keys and values of a mapping in turn, merged ones resolved.
func (w *yamlJSON) fields(n *yaml.Node, depth int) ([]*yaml.Node, error) {
	if depth > maxYAMLDepth {
		return nil, Faults{fmt.Sprintf("line %d: it is nested more than %d deep", n.Line, maxYAMLDepth)}
	}
	var merged, own []*yaml.Node
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return nil, Faults{fmt.Sprintf("line %d: a field's name is a text", key.Line)}
		}
		if key.ShortTag() == "!!merge" {
			more, err := w.mergedFields(value, depth)
			if err != nil {
				return nil, err
			}
			merged = append(merged, more...)
			continue
		}
		if seen[key.Value] {
			return nil, Faults{fmt.Sprintf("line %d: duplicate %q", key.Line, key.Value)}
		}
		seen[key.Value] = true
		own = append(own, key, value)
	}
	var fields []*yaml.Node
	for i := 0; i+1 < len(merged); i += 2 {
		if !seen[merged[i].Value] { // of several merged ones the first counts
			seen[merged[i].Value] = true
			fields = append(fields, merged[i], merged[i+1])
		}
	}
	return append(fields, own...), nil
}

func (w *yamlJSON) mergedFields(n *yaml.Node, depth int) ([]*yaml.Node, error) {
	switch n = target(n); n.Kind {
	case yaml.MappingNode:
		if w.left -= len(n.Content); w.left < 0 {
			return nil, Faults{fmt.Sprintf("line %d: the file's aliases make it too long", n.Line)}
		}
		return w.fields(n, depth+1)
	case yaml.SequenceNode:
		var all []*yaml.Node
		for _, element := range n.Content {
			if target(element).Kind != yaml.MappingNode {
				return nil, Faults{fmt.Sprintf("line %d: << must be followed by mappings", n.Line)}
			}
			fields, err := w.mergedFields(element, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, fields...)
		}
		return all, nil
	default:
		return nil, Faults{fmt.Sprintf("line %d: << must be followed by a mapping", n.Line)}
	}
}

// yamlScalar appends a scalar's JSON.
func yamlScalar(out []byte, n *yaml.Node) ([]byte, error) {
	refuse := func(what string) ([]byte, error) {
		return nil, Faults{fmt.Sprintf("line %d: %q is %s", n.Line, head(n.Value), what)}
	}
	var value any
	switch n.ShortTag() {
	case "!!null":
	case "!!str", "!!timestamp":
		value = n.Value
	case "!!bool":
		var b bool
		if n.Decode(&b) != nil {
			return refuse("neither true nor false")
		}
		value = b
	case "!!int":
		var i int64
		if n.Decode(&i) != nil {
			return refuse("no whole number of 64 bits")
		}
		value = i
	case "!!float":
		var f float64
		if n.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return refuse("no finite number")
		}
		value = f
	case "!!binary":
		value = map[string]string{"base64": strings.Join(strings.Fields(n.Value), "")}
	default:
		return refuse("of the unknown type " + n.Tag)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", n.Line, err)
	}
	return append(out, text...), nil
}
