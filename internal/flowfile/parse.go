package flowfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/nearest"
)

// Bounds of a workflow's file. YAML has a lower one, as its tree takes some thirty
// times the text.
const (
	maxFile = 256 << 20
	maxYAML = 16 << 20
)

// MaxFaults are reported at once; a file with more is wrong throughout.
const MaxFaults = 20

// The formats of a workflow's file.
const (
	FormatRota      = "rota"
	FormatWfCommons = "wfcommons"
)

// Faults lists the faults of a workflow's file.
type Faults []string

// Error implements error.
func (f Faults) Error() string { return strings.Join(f, "; ") }

// flowPart is a value in a workflow's file, as JSON, and the line where it begins.
type flowPart struct {
	line int
	text json.RawMessage
}

// flowParts is a workflow's file in our own format, taken apart but not understood:
// JSON and YAML both come to this.
type flowParts struct {
	// keys are those of fields in the file's order: nodes and edges are apart.
	keys   []string
	fields map[string]flowPart
	nodes  []flowPart
	edges  []flowPart
}

func (p *flowParts) has(key string) bool {
	_, ok := p.fields[key]
	return ok
}

// Read reads a workflow's file, or stdin for "-", up to its bound.
func Read(path string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read workflow: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read workflow from %s: %w", path, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d MiB, the most that is read", path, maxFile>>20)
	}
	return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), nil
}

// FormatOf returns the format of a workflow's file by its content, "" of one that is
// empty.
func FormatOf(text []byte) string {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return ""
	case isWfCommons(text):
		return FormatWfCommons
	default:
		return FormatRota
	}
}

// Parse reads a workflow's file of either format; "" takes that of its content. path only helps to tell JSON from YAML.
// The error for a faulty file is a Faults.
func Parse(text []byte, path, format string, o Options) (rota.WorkflowSpec, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return rota.WorkflowSpec{}, Faults{"it is empty"}
	}
	if cmp.Or(format, FormatOf(text)) == FormatWfCommons {
		return parseWfCommons(text, o)
	}
	parts, err := takeApart(text, path)
	if err != nil {
		return rota.WorkflowSpec{}, err
	}
	return parts.spec()
}

// takeApart distinguishes JSON and YAML by the first character, as every JSON object is also YAML; the file's suffix is
// asked only where it begins like JSON and is none.
func takeApart(text []byte, path string) (*flowParts, error) {
	suffix := strings.ToLower(filepath.Ext(path))
	if bytes.TrimSpace(text)[0] != '{' || (suffix == ".yaml" || suffix == ".yml") && !json.Valid(text) {
		return partsOfYAML(text)
	}
	return partsOfJSON(text)
}

// lineAt returns the line of an offset, from 1.
func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:max(0, min(offset, int64(len(text))))], []byte("\n"))
}

// checkJSON refuses text that is not JSON, with the line of the first fault.
func checkJSON(text []byte) error {
	if broken := jsonparts.NotJSON(text); broken != nil {
		return Faults{fmt.Sprintf("line %d: not JSON: %v", lineAt(text, int64(broken.Offset)), broken)}
	}
	return nil
}

// partsOfJSON takes a JSON file apart.
func partsOfJSON(text []byte) (*flowParts, error) {
	if err := checkJSON(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	line, counted := 1, int64(0)
	// at counts on, as lines of a large file are asked for one after the other.
	at := func(offset int64) int {
		line += bytes.Count(text[counted:offset], []byte("\n"))
		counted = offset
		return line
	}
	value := func() (flowPart, error) {
		var raw json.RawMessage
		err := d.Decode(&raw)
		return flowPart{at(d.InputOffset() - int64(len(raw))), raw}, err
	}
	p := &flowParts{fields: map[string]flowPart{}}
	if _, err := d.Token(); err != nil { // the opening brace
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := key.(string) // the syntax is checked: a key is a string
		keyLine := at(d.InputOffset())
		part, err := value()
		if err != nil {
			return nil, err
		}
		if err := p.add(name, keyLine, part, listOfJSON); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// add notes a field of the file; list gives the elements of nodes and edges.
func (p *flowParts) add(key string, line int, part flowPart, list func(flowPart) ([]flowPart, error)) error {
	if p.has(key) {
		return Faults{fmt.Sprintf("line %d: duplicate %q", line, key)}
	}
	p.fields[key] = part
	var into *[]flowPart
	switch key {
	case "nodes":
		into = &p.nodes
	case "edges":
		into = &p.edges
	default:
		p.keys = append(p.keys, key)
		return nil
	}
	p.fields[key] = flowPart{line: part.line}
	if string(part.text) == "null" {
		return nil
	}
	elements, err := list(part)
	*into = elements
	return err
}

// listOfJSON returns the elements of a JSON list, each with its line.
func listOfJSON(whole flowPart) ([]flowPart, error) {
	if whole.text[0] != '[' {
		return nil, Faults{fmt.Sprintf("line %d: nodes and edges must be lists: use […]", whole.line)}
	}
	d := json.NewDecoder(bytes.NewReader(whole.text))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	line, counted := whole.line, int64(0)
	var list []flowPart
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		start := d.InputOffset() - int64(len(raw))
		line += bytes.Count(whole.text[counted:start], []byte("\n"))
		counted = start
		list = append(list, flowPart{line, raw})
	}
	return list, nil
}

// strictly decodes one JSON value; its error is for people, without a line.
func strictly(text []byte, into any) error {
	return readable(jsonparts.Read(text, into, true))
}

// readable returns the error of jsonparts.Read for people.
func readable(err error) error {
	fault, found := errors.AsType[*jsonparts.Fault](err)
	if refusal, ours := errors.AsType[*rota.Error](err); ours {
		return refusal
	}
	switch {
	case err == nil:
		return nil
	case found && fault.Unknown:
		path := fault.Path
		if !strings.Contains(path, `"`) { // odd names are quoted already
			path = strconv.Quote(path)
		}
		return fmt.Errorf("unknown field %s%s", path, meantField(fault.Name))
	case found && fault.Want == "a string" && (fault.Got == "a number" || fault.Got == "a boolean"):
		return fmt.Errorf("%w: put it in quotes", fault) // YAML reads 5 and yes as such
	case found:
		return fault
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// meantField returns what a field of other engines is called here.
func meantField(name string) string {
	meant := map[string]string{
		"depends_on": "parents", "dependsOn": "parents", "depends": "parents", "needs": "parents", "parent": "parents",
		"dependencies": "parents", "after": "parents", "upstream": "parents", "name": "id", "key": "id",
		"args": "payload", "input": "payload", "cpu": "cpu_milli", "memory": "memory_bytes", "io": "io_bytes_per_s",
		"ttl": "ttl_ms", "start_by": "start_by_ms",
		"delay": "delay_ms", "timeout": "max_runtime_ms", "max_runtime": "max_runtime_ms", "simulate": "simulate_ms",
		"tasks": "nodes", "jobs": "nodes", "steps": "nodes", "onFailure": "on_failure", "capabilities": "requires",
	}[name]
	if meant == "" {
		return nearest.Question(name, nodeFields())
	}
	return fmt.Sprintf(": did you mean %q?", meant)
}

// nodeFields are the names of a node's fields.
func nodeFields() []string {
	names := []string{"id", "parents", "run", "gate"}
	job := reflect.TypeFor[rota.JobSpec]()
	for i := range job.NumField() {
		name, _, _ := strings.Cut(job.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// head is the beginning of a long text.
func head(s string) string {
	const most = 72
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes)", len(s))
}
