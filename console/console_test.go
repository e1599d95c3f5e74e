package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func ask(method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Serve(w, r, []string{"http://10.0.0.1:6470", "http://evil; script-src *", "https://n2.lan:6470"})
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestServe_pages checks that every address of the console serves the page, which clients must request again each time.
func TestServe_pages(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/ui/", "/ui/jobs", "/ui/jobs/a%2Fb", "/ui/jobs/x.png", "/ui/../../etc/passwd"} {
		r := ask(http.MethodGet, path)
		if r.StatusCode != http.StatusOK || r.Header.Get("Cache-Control") != "no-cache" ||
			!strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d, %v", path, r.StatusCode, r.Header)
		}
		if body := text(t, r); !strings.Contains(body, `<script type="module"`) || strings.Contains(body, "<style") ||
			strings.Contains(body, "style=") {
			t.Errorf("%s: no page without styles of its own: %q", path, body)
		}
	}
	tag := ask(http.MethodGet, "/ui/").Header.Get("ETag")
	if r := ask(http.MethodGet, "/ui/jobs", "If-None-Match", tag); r.StatusCode != http.StatusNotModified ||
		r.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("with its own tag: %d, %v", r.StatusCode, r.Header)
	}
	if r := ask(http.MethodGet, "/ui"); r.StatusCode != http.StatusPermanentRedirect ||
		r.Header.Get("Location") != "/ui/" {
		t.Errorf("/ui: %d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	if r := ask(http.MethodPost, "/ui/"); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") == "" {
		t.Errorf("POST: %d, %v", r.StatusCode, r.Header)
	}
	if r := ask(http.MethodHead, "/ui/"); r.StatusCode != http.StatusOK || text(t, r) != "" {
		t.Errorf("HEAD: %d", r.StatusCode)
	}
}

// TestServe_files checks that files loaded by the page are cached forever under their hashed names, and are compressed
// for clients that accept that; a missing file does not serve the page.
func TestServe_files(t *testing.T) {
	t.Parallel()
	script := regexp.MustCompile(`src="(/ui/assets/[^"]+\.js)"`).FindStringSubmatch(text(t,
		ask(http.MethodGet, "/ui/")))
	if script == nil {
		t.Fatal("the page loads no script under /ui/assets")
	}
	plain := ask(http.MethodGet, script[1])
	if got := plain.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" ||
		!strings.HasPrefix(plain.Header.Get("Content-Type"), "text/javascript") {
		t.Errorf("%s: %v", script[1], plain.Header)
	}
	want := text(t, plain)
	packed := ask(http.MethodGet, script[1], "Accept-Encoding", "br, gzip;q=0.8")
	if packed.Header.Get("Content-Encoding") != "gzip" || packed.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("compressed: %v", packed.Header)
	}
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || string(got) != want {
		t.Errorf("decompressed it is another file, or none: %v", err)
	}
	if r := ask(http.MethodGet, script[1], "Accept-Encoding", "gzip; q=0"); r.Header.Get("Content-Encoding") != "" {
		t.Error("compressed for who refuses it")
	}
	if r := ask(http.MethodGet, "/ui/assets/gone-12345678.js"); r.StatusCode != http.StatusNotFound ||
		strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("a file that is not there: %d, %v", r.StatusCode, r.Header)
	}
}

// TestServe_headers checks that each response, including refusals, allows connections to nodes of the cluster only,
// forbids framing, and allows only the page's own code; a node's address cannot extend that.
func TestServe_headers(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/ui", "/ui/", "/ui/icon.svg", "/ui/assets/none.js"} {
		h := ask(http.MethodGet, path).Header
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; worker-src 'self'; " +
				"connect-src 'self' http://10.0.0.1:6470 https://n2.lan:6470; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
				"require-trusted-types-for 'script'; trusted-types svelte-trusted-html",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s, %s: got %q, want %q", path, name, got, want)
			}
		}
		if len(h.Values("Set-Cookie")) > 0 {
			t.Errorf("%s sets a cookie", path)
		}
	}
}
