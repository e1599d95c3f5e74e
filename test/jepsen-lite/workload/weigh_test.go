package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestWeightOf(t *testing.T) {
	t.Parallel()
	text := "# HELP go_goroutines n\ngo_goroutines 57\nprocess_open_fds 1.2e+02\nother{a=\"b\"} 3\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	defer server.Close()
	look := func(ctx context.Context, path string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		if err != nil {
			return nil, err
		}
		return http.DefaultClient.Do(request)
	}
	files, goroutines, err := weightOf(t.Context(), look)
	if err != nil || files != 120 || goroutines != 57 {
		t.Errorf("%d files, %d goroutines, %v", files, goroutines, err)
	}
	text = "process_open_fds 1\n"
	if _, _, err := weightOf(t.Context(), look); err == nil {
		t.Error("metrics without goroutines were accepted")
	}
}
