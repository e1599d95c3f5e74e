package bucket

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

type uploadPlace struct {
	Key       string
	UploadID  string `xml:"UploadId"`
	Initiated string `xml:",omitempty"`
}

// serveUpload begins an upload in parts, accepts a part, and ends it.
func (s *Store) serveUpload(w http.ResponseWriter, r *http.Request, bucket, key string, body []byte) (any, *failure) {
	q := r.URL.Query()
	if q.Has("uploads") {
		s.began++
		id := fmt.Sprint("upload-", s.began)
		s.uploads[id] = upload{bucket, key, make(map[int][]byte)}
		return struct {
			XMLName xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket  string
			uploadPlace
		}{Bucket: bucket, uploadPlace: uploadPlace{Key: key, UploadID: id}}, nil
	}
	id := q.Get("uploadId")
	u, ok := s.uploads[id]
	if !ok || u.bucket != bucket || u.key != key {
		return nil, refused(http.StatusNotFound, "NoSuchUpload")
	}
	switch r.Method {
	case http.MethodPut:
		part, err := strconv.Atoi(q.Get("partNumber"))
		if err != nil {
			return nil, refused(http.StatusBadRequest, "InvalidArgument")
		}
		body, isCopy, f := source(r, s.buckets[bucket], body)
		if f != nil {
			return nil, f
		}
		u.parts[part] = body
		if isCopy {
			return copiedPart{ETag: etag(body)}, nil
		}
		w.Header().Set("ETag", etag(body))
		return nil, nil
	case http.MethodDelete:
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
		return nil, nil
	default:
		return s.complete(id, u, body)
	}
}

type copiedPart struct {
	XMLName xml.Name `xml:"CopyPartResult"`
	ETag    string
}

func (s *Store) complete(id string, u upload, body []byte) (any, *failure) {
	var want struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &want); err != nil {
		return nil, refused(http.StatusBadRequest, "MalformedXML")
	}
	var whole []byte
	for _, p := range want.Part {
		part, ok := u.parts[p.PartNumber]
		if !ok || strings.Trim(p.ETag, `"`) != strings.Trim(etag(part), `"`) {
			return nil, refused(http.StatusBadRequest, "InvalidPart")
		}
		whole = append(whole, part...)
	}
	delete(s.uploads, id)
	o := s.store(u.bucket, u.key, whole)
	return struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket  string
		Key     string
		ETag    string
	}{Bucket: u.bucket, Key: u.key, ETag: etag(o.body)}, nil
}

func (s *Store) listUploads(bucket, prefix string) any {
	answer := struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket  string
		Upload  []uploadPlace
	}{Bucket: bucket}
	for _, id := range slices.Sorted(maps.Keys(s.uploads)) {
		if u := s.uploads[id]; u.bucket == bucket && strings.HasPrefix(u.key, prefix) {
			answer.Upload = append(answer.Upload, uploadPlace{u.key, id, time.Now().UTC().Format(time.RFC3339)})
		}
	}
	return answer
}

type listed struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
}

type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	KeyCount              int
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listed
	CommonPrefixes        []struct{ Prefix string }
}

// list lists a page of keys after one; those with the delimiter after the prefix are grouped.
func list(name string, b map[string]object, prefix, delimiter, after string) listing {
	l := listing{Name: name, Prefix: prefix}
	folders := make(map[string]bool)
	for _, key := range slices.Sorted(maps.Keys(b)) {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok || key <= after {
			continue
		}
		if at := strings.Index(rest, delimiter); delimiter != "" && at >= 0 {
			folder := prefix + rest[:at+1]
			if !folders[folder] {
				folders[folder] = true
				l.CommonPrefixes = append(l.CommonPrefixes, struct{ Prefix string }{folder})
			}
			continue
		}
		if len(l.Contents) == pageKeys {
			l.IsTruncated, l.NextContinuationToken = true, l.Contents[pageKeys-1].Key
			break
		}
		o := b[key]
		l.Contents = append(l.Contents, listed{key, o.made.UTC().Format("2006-01-02T15:04:05.000Z"), etag(o.body),
			len(o.body)})
	}
	l.KeyCount = len(l.Contents)
	return l
}
