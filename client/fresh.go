package client

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// freshTLS encrypts each connection with the config in force at that time.
type freshTLS struct {
	credentials.TransportCredentials
	config func() (*tls.Config, error)
}

// ClientHandshake implements credentials.TransportCredentials.
func (f freshTLS) ClientHandshake(ctx context.Context, authority string,
	conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := f.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config.Clone()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (f freshTLS) Clone() credentials.TransportCredentials {
	return freshTLS{f.TransportCredentials.Clone(), f.config}
}
