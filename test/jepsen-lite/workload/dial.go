package workload

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// dialling returns the options of a connection without the library, which presents the user's token.
func (w *trial) dialling() []grpc.DialOption {
	config, token := w.Cluster.Shows(w.badge)
	if config == nil {
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	return []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithPerRPCCredentials(bearer(token))}
}

// bearer presents a token with each call.
type bearer func() (string, error)

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := b()
	return map[string]string{"authorization": "Bearer " + token}, err
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return true }
