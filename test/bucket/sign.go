package bucket

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// signed refuses a request that is not signed by the store's keys (AWS signature version 4).
func signed(r *http.Request) *failure {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	fields := make(map[string]string)
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	key, scope, found := strings.Cut(fields["Credential"], "/")
	switch {
	case !ok || !found:
		return refused(http.StatusForbidden, "AccessDenied")
	case key != AccessKey:
		return refused(http.StatusForbidden, "InvalidAccessKeyId")
	}
	secret := []byte("AWS4" + SecretKey)
	for part := range strings.SplitSeq(scope, "/") {
		secret = mac(secret, part)
	}
	digest := sha256.Sum256([]byte(canonical(r, fields["SignedHeaders"])))
	want := mac(secret, strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope,
		hex.EncodeToString(digest[:])}, "\n"))
	if hex.EncodeToString(want) != fields["Signature"] {
		return refused(http.StatusForbidden, "SignatureDoesNotMatch")
	}
	return nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, text)
	return h.Sum(nil)
}

// canonical returns the part of a request that is signed.
func canonical(r *http.Request, headers string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", r.Method, r.URL.EscapedPath())
	query := r.URL.Query()
	var pairs []string
	for name, values := range query {
		for _, value := range values {
			pairs = append(pairs, escape(name)+"="+escape(value))
		}
	}
	slices.Sort(pairs)
	fmt.Fprintf(&b, "%s\n", strings.Join(pairs, "&"))
	for name := range strings.SplitSeq(headers, ";") {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		fmt.Fprintf(&b, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	fmt.Fprintf(&b, "\n%s\n%s", headers, r.Header.Get("X-Amz-Content-Sha256"))
	return b.String()
}

func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// readChunks reads a body that is signed by the chunk.
func readChunks(r io.Reader) (body []byte, err error) {
	b := bufio.NewReader(r)
	for {
		line, err := b.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 32)
		if err != nil {
			return nil, err
		}
		chunk := make([]byte, n+2) // and the end of the line
		if _, err := io.ReadFull(b, chunk); err != nil {
			return nil, err
		}
		if n == 0 {
			return body, nil
		}
		body = append(body, chunk[:n]...)
	}
}
