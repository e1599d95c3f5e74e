package bucket

import (
	"crypto/md5" //nolint:gosec // an ETag is one
	"encoding/hex"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The keys that sign requests.
const (
	AccessKey = "ROTATESTKEY"
	SecretKey = "a secret of tests"
)

// pageKeys is how many keys one answer lists: few, so that listings have several pages.
const pageKeys = 3

// Store is the store. Its buckets exist from the start.
type Store struct {
	// URL is its endpoint.
	URL string

	mu      sync.Mutex
	buckets map[string]map[string]object
	uploads map[string]upload
	began   int
	// refuse, if it returns a code, makes the store refuse a request before it does anything.
	refuse func(r *http.Request) (status int, code string)
	// altered changes the stored bytes, as a failing disk does.
	altered func(key string, body []byte) []byte
}

type object struct {
	body []byte
	made time.Time
}

type upload struct {
	bucket, key string
	parts       map[int][]byte
}

// Start starts a store that ends with the test.
func Start(t testing.TB, buckets ...string) *Store {
	t.Helper()
	s := &Store{buckets: make(map[string]map[string]object), uploads: make(map[string]upload)}
	for _, name := range buckets {
		s.buckets[name] = make(map[string]object)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Environment returns the variables that make a process use the store, in the form of os.Environ.
func (s *Store) Environment() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey,
		"AWS_ENDPOINT_URL_S3=" + s.URL, "AWS_REGION=us-east-1"}
}

// Refuse makes the store refuse requests for which refuse returns a code; nil refuses none.
func (s *Store) Refuse(refuse func(r *http.Request) (status int, code string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// Alter changes the stored bytes from now on; nil does not.
func (s *Store) Alter(alter func(key string, body []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.altered = alter
}

// Keys returns the keys of a bucket's objects, in order.
func (s *Store) Keys(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.buckets[bucket]))
}

// Object returns an object, nil if there is none.
func (s *Store) Object(bucket, key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.buckets[bucket][key].body)
}

// Set stores an object.
func (s *Store) Set(bucket, key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[bucket][key] = object{slices.Clone(body), time.Now()}
}

// Uploads returns how many uploads are in progress, or were left.
func (s *Store) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// failure is a store's refusal.
type failure struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
	status  int
}

func refused(status int, code string) *failure {
	return &failure{Code: code, Message: "the test's store returns " + code, status: status}
}

// ServeHTTP implements http.Handler.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, f := s.take(r)
	var answer any
	if f == nil {
		s.mu.Lock()
		answer, f = s.serve(w, r, body)
		s.mu.Unlock()
	}
	if f != nil {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(f.status)
		if r.Method != http.MethodHead {
			_ = xml.NewEncoder(w).Encode(f)
		}
		return
	}
	switch answer := answer.(type) {
	case nil:
	case []byte:
		_, _ = w.Write(answer)
	default:
		w.Header().Set("Content-Type", "application/xml")
		_ = xml.NewEncoder(w).Encode(answer)
	}
}

// take reads a request's body if its signature is valid and nothing refuses it.
func (s *Store) take(r *http.Request) ([]byte, *failure) {
	if f := signed(r); f != nil {
		return nil, f
	}
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		if status, code := refuse(r); code != "" {
			return nil, refused(status, code)
		}
	}
	body, err := readBody(r)
	if err != nil {
		return nil, refused(http.StatusBadRequest, "IncompleteBody")
	}
	return body, nil
}

func (s *Store) serve(w http.ResponseWriter, r *http.Request, body []byte) (any, *failure) {
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	b, ok := s.buckets[name]
	if !ok {
		return nil, refused(http.StatusNotFound, "NoSuchBucket")
	}
	q := r.URL.Query()
	switch {
	case key == "" && q.Has("location"):
		return []byte(
				`<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">us-east-1</LocationConstraint>`),
			nil
	case key == "" && q.Has("uploads"):
		return s.listUploads(name, q.Get("prefix")), nil
	case key == "":
		return list(name, b, q.Get("prefix"), q.Get("delimiter"), q.Get("continuation-token")), nil
	case q.Has("uploads") || q.Has("uploadId"):
		return s.serveUpload(w, r, name, key, body)
	case r.Method == http.MethodDelete:
		delete(b, key)
		w.WriteHeader(http.StatusNoContent)
		return nil, nil
	case r.Method == http.MethodPut:
		body, isCopy, f := source(r, b, body)
		if f != nil {
			return nil, f
		}
		o := s.store(name, key, body)
		if !isCopy {
			w.Header().Set("ETag", etag(o.body))
			return nil, nil
		}
		return copied{ETag: etag(o.body), LastModified: o.made.UTC().Format(time.RFC3339)}, nil
	default:
		o, ok := b[key]
		if !ok {
			return nil, refused(http.StatusNotFound, "NoSuchKey")
		}
		return serveObject(w, r, o)
	}
}

func (s *Store) store(bucket, key string, body []byte) object {
	if s.altered != nil {
		body = s.altered(key, slices.Clone(body))
	}
	o := object{body, time.Now()}
	s.buckets[bucket][key] = o
	return o
}

// source returns the object that a request copies, or else its body.
func source(r *http.Request, b map[string]object, body []byte) (of []byte, isCopy bool, f *failure) {
	from := r.Header.Get("X-Amz-Copy-Source")
	if from == "" {
		return body, false, nil
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(from, "/"), "/")
	o, ok := b[key]
	if !ok {
		return nil, true, refused(http.StatusNotFound, "NoSuchKey")
	}
	return o.body, true, nil
}

type copied struct {
	XMLName      xml.Name `xml:"CopyObjectResult"`
	ETag         string
	LastModified string
}

func serveObject(w http.ResponseWriter, r *http.Request, o object) (any, *failure) {
	w.Header().Set("ETag", etag(o.body))
	w.Header().Set("Last-Modified", o.made.UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/octet-stream")
	from := 0
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		first, _, _ := strings.Cut(text, "-")
		from, _ = strconv.Atoi(first)
		from = min(from, len(o.body))
		w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(o.body)-1)+"/"+
			strconv.Itoa(len(o.body)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(o.body)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodHead {
		return nil, nil
	}
	return o.body[from:], nil
}

func etag(body []byte) string {
	sum := md5.Sum(body) //nolint:gosec // an ETag is one
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func readBody(r *http.Request) ([]byte, error) {
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return readChunks(r.Body)
	}
	return io.ReadAll(r.Body)
}
