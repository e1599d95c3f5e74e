package client

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"

	"github.com/rotasched/rota"
)

// DefaultAddress is where the rota command looks for a cluster, and `rota dev` listens.
const DefaultAddress = "127.0.0.1:6470"

// DialEnv returns a client set up by the environment, as the rota command is: of the nodes in
// ROTA_ADDR, separated by commas, or DefaultAddress where that is not set. ROTA_TLS_CA,
// ROTA_TLS_CERT and ROTA_TLS_KEY name files (PEM) and encrypt the connections; they are
// read once. ROTA_TOKEN has an access token. An option overrides the environment.
func DialEnv(opts ...Option) (*Client, error) {
	addrs := os.Getenv("ROTA_ADDR")
	if addrs == "" {
		addrs = DefaultAddress
	}
	config, err := tlsEnv()
	if err != nil {
		return nil, err
	}
	if config != nil {
		opts = append([]Option{WithTLS(config)}, opts...)
	}
	if token := os.Getenv("ROTA_TOKEN"); token != "" {
		opts = append([]Option{WithToken(token)}, opts...)
	}
	return Dial(strings.Split(addrs, ","), opts...)
}

// tlsEnv returns the TLS settings of the environment; nil where it has none.
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
