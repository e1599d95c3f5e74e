package client

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/secret"
)

// DefaultAddress is where the rota command connects by default, and where `rota dev` listens.
const DefaultAddress = "127.0.0.1:6470"

// DialEnv returns a client configured from the environment, as the rota command is: by ROTA_ADDR, ROTA_TLS_CA,
// ROTA_TLS_CERT, ROTA_TLS_KEY, ROTA_TOKEN_FILE, ROTA_TOKEN and ROTA_TIMEOUT (docs/reference/environment.md). An option
// overrides the environment. An unusable value is rejected as INVALID, with its variable as the subject.
func DialEnv(opts ...Option) (*Client, error) {
	addrs := os.Getenv("ROTA_ADDR")
	if addrs == "" {
		addrs = DefaultAddress
	}
	var env []Option
	config, err := tlsEnv()
	if err != nil {
		return nil, err
	}
	if config != nil {
		env = append(env, WithTLS(config))
	}
	if path := os.Getenv("ROTA_TOKEN_FILE"); path != "" {
		file := secret.NewLive(path, limits.MaxTokenFile)
		if _, err := file.Now(); err != nil {
			return nil, refusedEnv("ROTA_TOKEN_FILE", err)
		}
		env = append(env, WithTokenFrom(file.Now))
	} else if token := os.Getenv("ROTA_TOKEN"); token != "" {
		env = append(env, WithToken(token))
	}
	if text := os.Getenv("ROTA_TIMEOUT"); text != "" {
		timeout, err := rota.ParseDuration(text)
		if err == nil && (timeout < time.Millisecond || timeout > rota.MaxDuration) {
			err = rota.Refusef(rota.KindInvalid, "timeout", "timeout must be between %v and %v, got %v",
				time.Millisecond, rota.MaxDuration, timeout)
		}
		if err != nil {
			return nil, refusedEnv("ROTA_TIMEOUT", err)
		}
		env = append(env, WithPatience(timeout))
	}
	return Dial(strings.Split(addrs, ","), append(env, opts...)...)
}

// tlsEnv returns the TLS settings of the environment; nil if there are none.
func tlsEnv() (*tls.Config, error) {
	ca, cert, key := os.Getenv("ROTA_TLS_CA"), os.Getenv("ROTA_TLS_CERT"), os.Getenv("ROTA_TLS_KEY")
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, refusedEnv("ROTA_TLS_CA", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, rota.Refusef(rota.KindInvalid, "ROTA_TLS_CA", "ROTA_TLS_CA: %s has no certificate in PEM", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, refusedEnv("ROTA_TLS_CERT and ROTA_TLS_KEY", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func refusedEnv(names string, err error) error {
	return &rota.Error{Kind: rota.KindInvalid, Subject: names, Text: names + " cannot be used", Cause: err}
}
