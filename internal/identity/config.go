package identity

import "crypto/tls"

// Between returns the configuration of both ends of a connection between nodes: each shows its current certificate, and
// verify judges the other's, at each handshake. The URI in it is checked instead of the host name.
func Between(show func() *tls.Certificate, verify func(tls.ConnectionState) error) *tls.Config {
	config := Serving(show, verify)
	config.ClientAuth = tls.RequireAnyClientCert
	config.InsecureSkipVerify = true
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show(), nil }
	return config
}

// Serving returns the configuration by which a node serves all clients: verify judges any certificate shown, and it
// alone decides which authorities count.
func Serving(show func() *tls.Certificate, verify func(tls.ConnectionState) error) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert, VerifyConnection: verify,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return show(), nil }}
}
