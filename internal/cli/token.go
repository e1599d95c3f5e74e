package cli

import (
	"strings"

	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/secret"
)

const (
	// tokenVariable has the token itself.
	tokenVariable = EnvPrefix + "TOKEN"
	// TokenFlag names a file with the token.
	TokenFlag = "token-file"
)

// Token returns where the access token to show comes from: --token-file, which is read again
// where it changes, else ROTA_TOKEN; nil for neither, and where none is to be shown.
func (a *App) Token() (func() (string, error), error) {
	if a.Unknown {
		return nil, nil
	}
	if a.TokenFile != "" {
		file := secret.NewLive(a.TokenFile, limits.MaxTokenFile)
		now := func() (string, error) {
			token, err := file.Now()
			if err != nil {
				return "", Usagef("read --%s: %w", TokenFlag, err)
			}
			return token, nil
		}
		_, err := now()
		return now, err
	}
	for _, v := range a.Environ {
		if token, ok := strings.CutPrefix(v, tokenVariable+"="); ok && token != "" {
			return func() (string, error) { return token, nil }, nil
		}
	}
	return nil, nil
}
