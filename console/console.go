package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// dist is the output of `make console`.
//
//go:embed all:dist
var dist embed.FS

const (
	// root is the path of the console, with a trailing slash.
	root = "/ui/"
	// page is served for every address of the console that is not a file.
	page = "index.html"
	// hashed is the folder of files whose names change with their content.
	hashed = "assets/"
	// minCompress is the smallest size worth compressing.
	minCompress = 1 << 10
)

// file is one file as it is served.
type file struct {
	mediaType, tag string
	plain, gzipped []byte
}

// files are compressed on the first request: gzip's output differs between processors, so it is not committed.
var files = sync.OnceValue(func() map[string]*file {
	all := make(map[string]*file)
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := dist.ReadFile(name)
		if err == nil {
			all[strings.TrimPrefix(name, "dist/")] = newFile(name, text)
		}
		return err
	})
	if err != nil {
		panic("the binary's own files cannot be read: " + err.Error())
	}
	return all
})

func newFile(name string, text []byte) *file {
	sum := sha256.Sum256(text)
	f := &file{plain: text, tag: `"` + hex.EncodeToString(sum[:16]) + `"`, mediaType: mediaTypeOf(name)}
	if len(text) < minCompress {
		return f
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is one of the library's
	_, _ = w.Write(text)                                       // to memory
	_ = w.Close()
	if packed.Len() < len(text) {
		f.gzipped = packed.Bytes()
	}
	return f
}

// mediaTypeOf does not depend on the types that the host knows.
func mediaTypeOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

// Serve answers a request under /ui. Origins are the nodes that the page may call in addition to the one that served
// it.
func Serve(w http.ResponseWriter, r *http.Request, origins []string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy(origins))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the console has files only: use GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	name, inside := strings.CutPrefix(r.URL.Path, root)
	if !inside { // /ui itself: the page's requests are relative to /ui/
		http.Redirect(w, r, root, http.StatusPermanentRedirect)
		return
	}
	f := files()[name]
	switch {
	case f != nil && strings.HasPrefix(name, hashed):
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	case f == nil && strings.HasPrefix(name, hashed):
		http.Error(w, "there is no such file: the node was upgraded since the page was loaded, so load it again",
			http.StatusNotFound)
		return
	case f == nil:
		f = files()[page]
	}
	f.serve(w, r)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("ETag", f.tag)
	h.Set("Content-Type", f.mediaType)
	text := f.plain
	if f.gzipped != nil {
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			text = f.gzipped
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// acceptsGzip reports whether a client accepts gzip; a weight of 0 means that it does not.
func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return !slices.Contains([]string{"q=0", "q=0.0", "q=0.00", "q=0.000"}, strings.ReplaceAll(weight, " ", ""))
		}
	}
	return false
}

// policy returns the page's content security policy: scripts, styles and connections of the node's own and of the
// cluster's other nodes, no frame around it, and no markup from text except by the one policy of the library that the
// page is built with.
func policy(origins []string) string {
	connect := []string{"'self'"}
	for _, origin := range origins {
		if !strings.ContainsAny(origin, " ;,'\"") { // an address is a host and a port, whatever the state contains
			connect = append(connect, origin)
		}
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; worker-src 'self'; connect-src " +
		strings.Join(connect, " ") + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types svelte-trusted-html"
}
