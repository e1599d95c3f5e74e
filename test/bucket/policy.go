package bucket

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Policy is the part of an AWS policy that Enforce reads: statements that allow actions on resources. A resource may
// end with *.
type Policy struct {
	Statement []struct {
		Effect           string
		Action, Resource []string
	}
}

// ParsePolicy reads a policy in JSON.
func ParsePolicy(t testing.TB, text []byte) (p Policy) {
	t.Helper()
	if err := json.Unmarshal(text, &p); err != nil || len(p.Statement) == 0 {
		t.Fatalf("not a policy: %v: %s", err, text)
	}
	for _, s := range p.Statement {
		if s.Effect != "Allow" {
			t.Fatalf("effect is %q: Enforce reads Allow only", s.Effect)
		}
	}
	return p
}

// Enforce makes the store refuse every request whose actions a policy does not allow, as S3 does.
func (s *Store) Enforce(p Policy) {
	s.Refuse(func(r *http.Request) (int, string) {
		for _, need := range needs(r) {
			if !p.allows(need) {
				return http.StatusForbidden, "AccessDenied"
			}
		}
		return 0, ""
	})
}

// permission is an action on a resource.
type permission struct{ action, resource string }

// needs returns the permissions that a request needs.
func needs(r *http.Request) []permission {
	const arn = "arn:aws:s3:::"
	path := strings.TrimPrefix(r.URL.Path, "/")
	bucket, key, _ := strings.Cut(path, "/")
	q := r.URL.Query()
	need := func(action string) []permission {
		return []permission{{"s3:" + action, arn + strings.TrimSuffix(path, "/")}}
	}
	switch {
	case key == "" && q.Has("location"):
		return need("GetBucketLocation")
	case key == "" && q.Has("uploads"):
		return need("ListBucketMultipartUploads")
	case key == "":
		return need("ListBucket")
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		return need("AbortMultipartUpload")
	case r.Method == http.MethodDelete:
		return need("DeleteObject")
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		from := strings.TrimPrefix(r.Header.Get("X-Amz-Copy-Source"), "/")
		return append(need("PutObject"), permission{"s3:GetObject", arn + from})
	case r.Method == http.MethodPut || r.Method == http.MethodPost:
		return need("PutObject")
	case q.Has("uploadId"):
		return need("ListMultipartUploadParts")
	case bucket != "":
		return need("GetObject")
	}
	return need("ListAllMyBuckets")
}

func (p Policy) allows(need permission) bool {
	for _, s := range p.Statement {
		for _, action := range s.Action {
			for _, resource := range s.Resource {
				prefix, open := strings.CutSuffix(resource, "*")
				if action == need.action && (resource == need.resource || open &&
					strings.HasPrefix(need.resource, prefix)) {
					return true
				}
			}
		}
	}
	return false
}
