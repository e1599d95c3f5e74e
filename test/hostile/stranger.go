package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// strangerCalls are all existing calls, by a caller without a credential.
func strangerCalls() (all []probe) {
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			if f.Package() != "rota.v1" {
				continue
			}
			all = append(all, probe{name: fmt.Sprintf("each call of %s without a credential", service.FullName()),
				bites: service.Name() != "Node",
				try:   func(ctx context.Context, s *scene) (string, error) { return eachCall(ctx, s, service) }})
		}
		return true
	})
	return append(all,
		probe{name: "a call that there is not", try: callOf("/rota.v1.Jobs/Steal", codes.Unauthenticated,
			codes.Unimplemented, codes.PermissionDenied)},
		probe{name: "the list of all calls, by reflection", bites: true,
			try: callOf("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", codes.Unauthenticated)},
		probe{name: "only whether it is alive", try: health},
		probe{name: "the page of events", bites: true, try: webStatus("/v1/events", http.StatusUnauthorized)},
		probe{name: "a page that there is not", try: webStatus("/v1/jobs", http.StatusNotFound,
			http.StatusUnauthorized)}, probe{name: "who it is", bites: true, try: whoAmI},
		probe{name: "an identity token without a signature, alg none", try: exchange},
		probe{name: "a node's fields in the public protocol", bites: true, try: forgedMetadata},
	)
}

// callsOf lists the calls of a service.
func callsOf(service protoreflect.ServiceDescriptor) (all []string) {
	for i := range service.Methods().Len() {
		all = append(all, fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(i).Name()))
	}
	return all
}

// eachCall makes every call of a service, with an empty message.
func eachCall(ctx context.Context, s *scene, service protoreflect.ServiceDescriptor) (said string, err error) {
	conn, err := s.conn(s.nodes[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	calls := 0
	for _, method := range callsOf(service) {
		if method == rotav1.Auth_Exchange_FullMethodName || method == rotav1.Auth_WhoAmI_FullMethodName {
			continue // open to all: each has a separate probe
		}
		if s.plant && strings.HasSuffix(method, "/Leave") {
			continue // a caller with all rights may do that
		}
		refusal := invoke(ctx, conn, method)
		switch code := status.Code(refusal); {
		case refusal == nil:
			return "", fmt.Errorf("%s was answered", method)
		case code != codes.Unauthenticated && code != codes.PermissionDenied:
			return "", fmt.Errorf("%s is refused for another reason: %w", method, refusal)
		}
		calls, said = calls+1, status.Convert(refusal).Message()
	}
	return fmt.Sprintf("%d calls: %s", calls, said), nil
}

// invoke makes a call of any kind with an empty message, and returns how it ended.
func invoke(ctx context.Context, conn *grpc.ClientConn, method string) error {
	stream, err := conn.NewStream(ctx, streaming, method)
	if err != nil {
		return err
	}
	_ = stream.SendMsg(&emptypb.Empty{})
	_ = stream.CloseSend()
	return stream.RecvMsg(&emptypb.Empty{})
}

// callOf is a call that must be refused by one of the codes.
func callOf(method string, want ...codes.Code) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		conn, err := s.conn(s.nodes[1])
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return turnedAway(invoke(ctx, conn, method), want...)
	}
}

// turnedAway turns the answer of a bare call that must be refused into a probe's result.
func turnedAway(err error, want ...codes.Code) (string, error) {
	if err == nil || errors.Is(err, io.EOF) {
		return "", errors.New("it was answered")
	}
	for _, code := range want {
		if status.Code(err) == code {
			return err.Error(), nil
		}
	}
	return "", fmt.Errorf("refused for another reason: %w", err)
}

// health is the answer to a stranger, of each node.
func health(ctx context.Context, s *scene) (string, error) {
	for _, n := range s.nodes {
		if err := n.Ready(); err != nil {
			return "", err
		}
	}
	conn, err := s.conn(s.nodes[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := invoke(ctx, conn, "/grpc.health.v1.Health/Check"); err != nil {
		return "", err
	}
	return "the answers are only alive and ready", nil
}

// web calls a node's API over HTTP/1.1.
func (s *scene) web(ctx context.Context, method, path string,
	change func(*http.Request)) (code int, body string, header http.Header, err error) {
	config := s.trusting()
	config.NextProtos = []string{"http/1.1"}
	asking := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, method, "https://"+s.nodes[0].API+path, nil)
	if err != nil {
		return 0, "", nil, err
	}
	if change != nil {
		change(request)
	}
	answer, err := asking.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return answer.StatusCode, "a stream begins", answer.Header, nil // it may never end
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	return answer.StatusCode, string(text), answer.Header, err
}

// webStatus is a page that must be refused by one of the codes.
func webStatus(path string, want ...int) func(context.Context, *scene) (string, error) {
	return webRefused(http.MethodGet, path, nil, want...)
}

func webRefused(method, path string, change func(*http.Request),
	want ...int) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		code, body, header, err := s.web(ctx, method, path, change)
		if err != nil {
			return "", err
		}
		for name := range header {
			if strings.HasPrefix(name, "Access-Control-") {
				return "", fmt.Errorf("the answer has %s: %q", name, header.Get(name))
			}
		}
		for _, w := range want {
			if code == w {
				return fmt.Sprintf("%d %s", code, body), nil
			}
		}
		return "", fmt.Errorf("it is answered by %d %s", code, short(body))
	}
}

// whoAmI is answered to everybody: a stranger is the anonymous principal, without rights.
func whoAmI(ctx context.Context, s *scene) (string, error) {
	nobody, err := s.dial("")
	if err != nil {
		return "", err
	}
	defer nobody.Close()
	who, err := nobody.Auth().WhoAmI(ctx)
	if err == nil && (who.Principal != rota.Anonymous || len(who.Grants) > 0) {
		err = fmt.Errorf("it is %+v", who)
	}
	return "anonymous, without a grant", err
}

// exchange sends an unsigned identity and asks for a token.
func exchange(ctx context.Context, s *scene) (string, error) {
	nobody, err := s.dial("")
	if err != nil {
		return "", err
	}
	defer nobody.Close()
	_, _, err = nobody.Auth().Exchange(ctx,
		"eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2V2aWwuZXhhbXBsZSIsInN1YiI6InJvb3QifQ.")
	return refused(err, rota.KindUnauthenticated, rota.KindDenied, rota.KindInvalid)
}

// forgedMetadata claims an identity in every header that might be believed.
func forgedMetadata(ctx context.Context, s *scene) (string, error) {
	conn, err := s.conn(s.nodes[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	said := ""
	for _, pair := range [][2]string{{"rota-actor", "token:root"}, {"rota-principal", "local"},
		{"x-forwarded-user", "root"},
		{"rota-via", "n1/socket"}, {"x-forwarded-client-cert", "URI=spiffe://rota/client/root/ann"},
		{"cookie", "session=" + s.tokens["root"]}} {
		if said, err = turnedAway(invoke(metadata.AppendToOutgoingContext(ctx, pair[0], pair[1]), conn,
			rotav1.Cluster_Status_FullMethodName),
			codes.Unauthenticated); err != nil {
			return "", fmt.Errorf("%s: %w", pair[0], err)
		}
	}
	return said, nil
}
