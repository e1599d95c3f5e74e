package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// keyCalls serves the calls of keys and their rules.
type keyCalls struct{ *Site }

func (s *Site) keys() {
	c := keyCalls{s}
	const all, one = "/v1/key-rules", "/v1/key-rules/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Keys_List_FullMethodName, id: "listKeyRules",
		says: "List the key rules, by queue, name and value"}, c.listKeyRules)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Keys_List_FullMethodName, id: "getKeyRule",
		says: "Read a key rule"}, c.getKeyRule)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Keys_Set_FullMethodName, id: "setKeyRule",
		says: "Create a key rule, or replace the rule with the same queue, name and value"}, c.setKeyRule)
	add(s, route{method: http.MethodDelete, path: one, call: rotav1.Keys_Delete_FullMethodName, id: "deleteKeyRule",
		says: "Delete the key rule of a queue, a name and a value"}, c.deleteKeyRule)
	add(s, route{method: http.MethodGet, path: "/v1/keys", call: rotav1.Keys_Get_FullMethodName, id: "getKey",
		says: "Read the current counts of a tenant's key, under each rule that applies to it, at most 1,000"}, c.getKey)
	add(s, route{method: http.MethodGet, path: "/v1/key-states", call: rotav1.Keys_States_FullMethodName,
		id:   "listKeyStates",
		says: "List the keys that rules count, most used first: by open leases, then by live jobs"}, c.listKeyStates)
	add(s, route{method: http.MethodPost, path: "/v1/keys/skip", call: rotav1.Keys_Skip_FullMethodName, id: "skipKey",
		says: "Continue a sequence after the job that blocks it"}, c.skipKey)
	add(s, route{method: http.MethodPost, path: "/v1/keys/pause", call: rotav1.Keys_Pause_FullMethodName, id: "pauseKey",
		says: "Pause a key: no further job of it starts; the later of two pauses applies"}, c.pauseKey)
	add(s, route{method: http.MethodPost, path: "/v1/keys/resume", call: rotav1.Keys_Resume_FullMethodName,
		id: "resumeKey", says: "End the pause of a key, and close its breaker"}, c.resumeKey)
}

func (s keyCalls) listKeyRules(ctx context.Context, in *List) (*Answer[rest.KeyRules], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Keys.List(ctx, &rotav1.ListKeyRulesRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetRules(), words.KeyRuleFromWire)
	return answer(rest.KeyRules{Rules: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

// KeyOf selects a rule by name.
type KeyOf struct {
	Queue string `query:"queue" maxLength:"255" doc:"The queue that the rule applies to; without it, all queues together."`
	Value string `query:"value" maxLength:"255" doc:"The value that the rule applies to; without it, all values without a rule of their own."`
}

// OneKeyRule holds the parameters of a read of a rule.
type OneKeyRule struct {
	One
	KeyOf
}

// getKeyRule looks up a rule in the list, whose rows are small.
func (s keyCalls) getKeyRule(ctx context.Context, in *OneKeyRule) (*Versioned[rota.KeyRule], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	const page = 1000
	for cursor := ""; ; {
		got, err := s.options.Calls.Keys.List(ctx, &rotav1.ListKeyRulesRequest{Read: read, Limit: page, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, r := range got.GetRules() {
			if r.GetName() == in.ID && r.GetQueue() == in.Queue && r.GetValue() == in.Value {
				rule, err := words.KeyRuleFromWire(r)
				return versioned(rule, rule.ETag, got.GetAt()), err
			}
		}
		if cursor = got.GetNextCursor(); cursor == "" {
			return nil, rota.Refusef(rota.KindNotFound, "key-rule",
				"there is no rule of key %q with queue %q and value %q: GET /v1/key-rules lists them",
				head(in.ID), head(in.Queue), head(in.Value))
		}
	}
}

// KeyRuleSetting is a call that sets a rule.
type KeyRuleSetting struct {
	NamedVersion
	KeyOf
	Given In[rota.KeyRule]
}

func (s keyCalls) setKeyRule(ctx context.Context, in *KeyRuleSetting) (*Versioned[rota.KeyRule], error) {
	rule, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	for _, of := range [][2]string{{rule.Name, in.ID}, {string(rule.Queue), in.Queue}, {rule.Value, in.Value}} {
		if err := sameID(of[0], of[1]); err != nil {
			return nil, err
		}
	}
	rule.Name, rule.Queue, rule.Value = in.ID, rota.QueueName(in.Queue), in.Value
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Keys.Set(ctx, &rotav1.SetKeyRuleRequest{Rule: words.KeyRuleToWire(&rule),
		IfMatch: version})
	if err != nil {
		return nil, err
	}
	rule, err = words.KeyRuleFromWire(got.GetRule())
	return versioned(rule, rule.ETag, nil), err
}

// KeyRuleDeletion is a call that deletes a rule.
type KeyRuleDeletion struct {
	NamedVersion
	KeyOf
}

func (s keyCalls) deleteKeyRule(ctx context.Context, in *KeyRuleDeletion) (*Answer[rest.Deleted], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Keys.Delete(ctx, &rotav1.DeleteKeyRuleRequest{Queue: in.Queue, Name: in.ID,
		Value: in.Value, IfMatch: version})
	return answer(rest.Deleted{}, nil), err
}

// KeyQuery selects a key.
type KeyQuery struct {
	Key    string `query:"key" required:"true" maxLength:"512" doc:"The key, as name:value."`
	Tenant string `query:"tenant" default:"default" maxLength:"255" doc:"The tenant of the key."`
	Reading
}

func (s keyCalls) getKey(ctx context.Context, in *KeyQuery) (*Answer[rest.Keys], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Keys.Get(ctx, &rotav1.GetKeyRequest{Tenant: in.Tenant, Key: in.Key, Read: read})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetKeys(), words.KeyStateFromWire)
	return answer(rest.Keys{Keys: rows}, got.GetAt()), err
}

// KeyList holds the parameters of a list of keys.
type KeyList struct {
	List
	Queue  string `query:"queue" maxLength:"255" doc:"Only keys that a rule of this queue counts."`
	Tenant string `query:"tenant" maxLength:"255" doc:"Only keys of this tenant."`
	Name   string `query:"name" maxLength:"128" doc:"Only keys with this name before the colon."`
	Held   string `query:"held" enum:"any,full,blocked,paused,open" default:"any" doc:"full: keys whose rule or pause stops their jobs now. blocked: keys whose sequence is blocked by a DEAD or EXPIRED job. open: keys whose breaker is open or probing."`
	By     string `query:"by" enum:"use,spent" default:"use" doc:"The order: use lists the keys with the most open leases first, spent those with the largest unrepaid part of their burst."`
}

func (s keyCalls) listKeyStates(ctx context.Context, in *KeyList) (*Answer[rest.KeyStates], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Keys.States(ctx, &rotav1.ListKeyStatesRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor, Queue: in.Queue, Tenant: in.Tenant, Name: in.Name, Held: in.Held, By: in.By})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetKeys(), words.KeyStateFromWire)
	return answer(rest.KeyStates{Keys: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

// KeySkipping is a call that lets a sequence continue.
type KeySkipping struct{ Given In[rest.KeySkip] }

func (s keyCalls) skipKey(ctx context.Context, in *KeySkipping) (*Answer[rest.Done], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Keys.Skip(ctx, &rotav1.SkipKeyRequest{Queue: body.Queue, Tenant: body.Tenant,
		Key: body.Key, Job: body.Job})
	return answer(rest.Done{}, nil), err
}

// KeyPausing is a call that pauses a key.
type KeyPausing struct{ Given In[rest.KeyPauseSetting] }

func (s keyCalls) pauseKey(ctx context.Context, in *KeyPausing) (*Answer[rest.Done], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Keys.Pause(ctx, &rotav1.PauseKeyRequest{Queue: body.Queue, Tenant: body.Tenant,
		Key: body.Key, UntilMs: body.UntilMs, Reason: body.Reason})
	return answer(rest.Done{}, nil), err
}

// KeyResuming is a call that resumes a key.
type KeyResuming struct{ Given In[rest.KeyResumption] }

func (s keyCalls) resumeKey(ctx context.Context, in *KeyResuming) (*Answer[rest.Done], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Keys.Resume(ctx, &rotav1.ResumeKeyRequest{Queue: body.Queue, Tenant: body.Tenant,
		Key: body.Key})
	return answer(rest.Done{}, nil), err
}
