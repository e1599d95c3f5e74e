package web

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/rotasched/rota"
)

// message is the content of a block of a topic.
type message struct {
	Topic string `json:"topic"`
	// Full reports that Parts has all; otherwise those that changed since the previous message.
	Full    bool                       `json:"full,omitempty"`
	Index   rota.Index                 `json:"index,omitempty"`
	State   json.RawMessage            `json:"state,omitempty"`
	Nodes   map[string]json.RawMessage `json:"nodes,omitempty"`
	Gone    []string                   `json:"gone,omitempty"`
	Problem json.RawMessage            `json:"problem,omitempty"`
}

// render returns the message for a state; nil if it equals the previous one. Only the loop calls it.
func (f *feed) render(state any, parts map[string]any, at rota.Index, err error) *shown {
	full := message{Topic: f.topic.String(), Full: true, Index: at}
	var body []byte
	all := make(map[string][]byte, len(parts))
	if err != nil {
		full.Problem, full.Index = problemText(err), 0
		body = full.Problem
	} else {
		body = marshal(state)
		full.State = body
	}
	delta := message{Topic: full.Topic, Index: at, State: full.State, Nodes: make(map[string]json.RawMessage)}
	full.Nodes = make(map[string]json.RawMessage, len(parts))
	for name, part := range parts {
		text := marshal(part)
		all[name], full.Nodes[name] = text, text
		if !bytes.Equal(f.parts[name], text) {
			delta.Nodes[name] = text
		}
	}
	for name := range f.parts {
		if _, ok := all[name]; !ok {
			delta.Gone = append(delta.Gone, name)
		}
	}
	if f.now.version > 0 && bytes.Equal(f.state, body) && len(delta.Nodes) == 0 && len(delta.Gone) == 0 {
		return nil
	}
	slices.Sort(delta.Gone)
	before := f.parts
	f.state, f.parts = body, all
	next := &shown{full: appendBlock(nil, "", "", marshal(full))}
	if len(before) > 0 && len(all) > 0 {
		next.delta = appendBlock(nil, "", "", marshal(delta))
	}
	return next
}

// marshal encodes our own types, as bodies are encoded.
func marshal(v any) []byte {
	var b bytes.Buffer
	if err := write(&b, v); err != nil {
		return problemText(rota.Refusef(rota.KindInternal, "", "the node failed to show it: %v", err))
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
