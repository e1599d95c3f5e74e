package rig

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are chosen below those that the system gives to outgoing connections, so that a node that is down for a while
// keeps its own. Those from maxPort on are for the tests of package cluster, which run at the same time.
const (
	minPort = 10_000
	maxPort = 20_000
)

var ports struct {
	sync.Mutex
	next int
}

// FreePort returns a port on loopback that is free for TCP and UDP. No call returns one that an earlier call returned.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = minPort + rand.IntN(maxPort-minPort)
	}
	for range maxPort - minPort {
		if ports.next++; ports.next >= maxPort {
			ports.next = minPort
		}
		addr := loopback(ports.next)
		tcp, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		udp, err := net.ListenPacket("udp", addr)
		_ = tcp.Close()
		if err != nil {
			continue
		}
		_ = udp.Close()
		return ports.next, nil
	}
	return 0, errors.New("no port is free on loopback")
}

// FreeAddr returns FreePort as an address.
func FreeAddr() (string, error) {
	port, err := FreePort()
	return loopback(port), err
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
