package main

import (
	"strings"

	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/secret"
)

const (
	// tokenVariable has a token itself, tokenFlag the name of a file with one.
	tokenVariable = envPrefix + "TOKEN"
	tokenFlag     = "token-file"
)

// token returns where the access token to show comes from: --token-file, which is read again
// where it changes, else ROTA_TOKEN; nil for neither, and where none is to be shown.
func (a *app) token() (func() (string, error), error) {
	if a.unknown {
		return nil, nil
	}
	if a.tokenFile != "" {
		file := secret.NewLive(a.tokenFile, limits.MaxTokenFile)
		now := func() (string, error) {
			token, err := file.Now()
			if err != nil {
				return "", usagef("read --%s: %w", tokenFlag, err)
			}
			return token, nil
		}
		_, err := now()
		return now, err
	}
	for _, v := range a.environ {
		if token, ok := strings.CutPrefix(v, tokenVariable+"="); ok && token != "" {
			return func() (string, error) { return token, nil }, nil
		}
	}
	return nil, nil
}
