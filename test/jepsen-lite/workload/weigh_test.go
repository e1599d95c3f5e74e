package workload

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWeightOf(t *testing.T) {
	t.Parallel()
	text := "# HELP go_goroutines n\ngo_goroutines 57\nprocess_open_fds 1.2e+02\nother{a=\"b\"} 3\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	defer server.Close()
	files, goroutines, err := weightOf(t.Context(), strings.TrimPrefix(server.URL, "http://"))
	if err != nil || files != 120 || goroutines != 57 {
		t.Errorf("%d files, %d goroutines, %v", files, goroutines, err)
	}
	text = "process_open_fds 1\n"
	if _, _, err := weightOf(t.Context(), strings.TrimPrefix(server.URL, "http://")); err == nil {
		t.Error("metrics without goroutines were taken")
	}
}
