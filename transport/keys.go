package transport

import (
	"cmp"
	"context"
	"strings"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// keysService serves Keys.
type keysService struct {
	rotav1.UnimplementedKeysServer
	core KeyCore
}

// Set sets a rule, or replaces one.
func (s *keysService) Set(ctx context.Context, req *rotav1.SetKeyRuleRequest) (*rotav1.SetKeyRuleResponse, error) {
	r, err := words.KeyRuleFromWire(req.GetRule())
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return nil, err
	}
	version, err := oneVersion(req.GetIfMatch(), r.ETag)
	if err != nil {
		return nil, err
	}
	if ctx, err = ifMatch(ctx, version); err != nil {
		return nil, err
	}
	r.ETag = ""
	r, err = s.core.SetKeyRule(ctx, r)
	return &rotav1.SetKeyRuleResponse{Rule: words.KeyRuleToWire(&r)}, err
}

// oneVersion returns the version that a call changes: that of its condition, or that of an object that is sent back as
// read.
func oneVersion(match, etag string) (string, error) {
	if match != "" && etag != "" && etag != match {
		return "", rota.Refusef(rota.KindInvalid, "if_match",
			"if_match is %.80q, but the etag is %.80q: send only one of them", match, etag)
	}
	return cmp.Or(match, etag), nil
}

// Delete deletes a rule.
func (s *keysService) Delete(ctx context.Context,
	req *rotav1.DeleteKeyRuleRequest) (*rotav1.DeleteKeyRuleResponse, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	r := rota.KeyRule{Queue: rota.QueueName(req.GetQueue()), Name: req.GetName(), Value: req.GetValue()}
	if err := checkKeyRule(r); err != nil {
		return nil, err
	}
	return &rotav1.DeleteKeyRuleResponse{}, s.core.DeleteKeyRule(ctx, r.Queue, r.Name, r.Value)
}

// checkKeyRule rejects a queue, a name or a value that no rule could have.
func checkKeyRule(r rota.KeyRule) error {
	r.Concurrency = 1
	return r.Check()
}

// checkKey rejects a text that no job could have as a key.
func checkKey(queue rota.QueueName, key string) error {
	name, value, ok := strings.Cut(key, ":")
	if !ok || value == "" {
		return rota.Malformed("key", key, "use NAME:VALUE")
	}
	return checkKeyRule(rota.KeyRule{Queue: queue, Name: name, Value: value})
}

// List reads the rules by queue, name and value.
func (s *keysService) List(ctx context.Context, req *rotav1.ListKeyRulesRequest) (*rotav1.ListKeyRulesResponse, error) {
	cursor := func(r *rota.KeyRule) string { return string(r.Queue) + "/" + r.Name + ":" + r.Value }
	rows, at, next, err := wholeList(ctx, req, s.core.KeyRules, cursor, words.KeyRuleToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListKeyRulesResponse{Rules: rows, At: at, NextCursor: next}, nil
}

// Get reads the counts of a tenant's key.
func (s *keysService) Get(ctx context.Context, req *rotav1.GetKeyRequest) (*rotav1.GetKeyResponse, error) {
	if err := rota.CheckID("tenant", req.GetTenant()); err != nil {
		return nil, err
	}
	if err := checkKey("", req.GetKey()); err != nil {
		return nil, err
	}
	states, at, err := s.core.Key(ctx, rota.TenantID(req.GetTenant()), req.GetKey(), words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	answer := &rotav1.GetKeyResponse{At: words.ReadAtToWire(at)}
	for i := range states {
		answer.Keys = append(answer.Keys, words.KeyStateToWire(&states[i]))
	}
	return answer, nil
}

// States reads a page of the counted keys, the most used first.
func (s *keysService) States(ctx context.Context,
	req *rotav1.ListKeyStatesRequest) (*rotav1.ListKeyStatesResponse, error) {
	f, err := words.KeyFilterFromWire(req)
	if err == nil {
		err = checkLimit(req.GetLimit(), req.GetCursor())
	}
	if err != nil {
		return nil, err
	}
	opt := words.ReadFromWire(req.GetRead())
	return onePage(&f.Limit, (*rotav1.ListKeyStatesResponse).GetKeys, func() (*rotav1.ListKeyStatesResponse, error) {
		states, next, at, err := s.core.KeyStates(ctx, f, opt)
		if err != nil {
			return nil, err
		}
		if !opt.Stale {
			opt.MinIndex = at.Index // as in Jobs/List
		}
		answer := &rotav1.ListKeyStatesResponse{At: words.ReadAtToWire(at), NextCursor: next}
		for i := range states {
			answer.Keys = append(answer.Keys, words.KeyStateToWire(&states[i]))
		}
		return answer, nil
	})
}

// Skip lets a sequence continue after the job that blocks it.
func (s *keysService) Skip(ctx context.Context, req *rotav1.SkipKeyRequest) (*rotav1.SkipKeyResponse, error) {
	queue, tenant, err := checkCounted(req)
	if err != nil {
		return nil, err
	}
	if err := rota.CheckID("job", req.GetJob()); err != nil {
		return nil, err
	}
	return &rotav1.SkipKeyResponse{}, s.core.SkipKey(ctx, queue, tenant, req.GetKey(), rota.JobID(req.GetJob()))
}

// checkCounted returns where a key is counted, or why no key could be counted there.
func checkCounted(req interface {
	GetQueue() string
	GetTenant() string
	GetKey() string
}) (rota.QueueName, rota.TenantID, error) {
	queue, tenant := rota.QueueName(req.GetQueue()), rota.TenantID(req.GetTenant())
	if tenant != "" {
		if err := rota.CheckID("tenant", tenant); err != nil {
			return "", "", err
		}
	}
	return queue, tenant, checkKey(queue, req.GetKey())
}

// Pause holds the jobs of a key.
func (s *keysService) Pause(ctx context.Context, req *rotav1.PauseKeyRequest) (*rotav1.PauseKeyResponse, error) {
	queue, tenant, err := checkCounted(req)
	if err != nil {
		return nil, err
	}
	return &rotav1.PauseKeyResponse{}, s.core.PauseKey(ctx, queue, tenant, req.GetKey(), rota.Date(req.GetUntilMs()),
		req.GetReason())
}

// Resume ends the pause of a key, and closes its breaker.
func (s *keysService) Resume(ctx context.Context, req *rotav1.ResumeKeyRequest) (*rotav1.ResumeKeyResponse, error) {
	queue, tenant, err := checkCounted(req)
	if err != nil {
		return nil, err
	}
	return &rotav1.ResumeKeyResponse{}, s.core.ResumeKey(ctx, queue, tenant, req.GetKey())
}
