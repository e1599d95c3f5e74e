package main

import (
	"fmt"
	"net"
)

// nodePorts are one node's addresses on loopback.
type nodePorts struct {
	API    string `json:"api"`
	Raft   string `json:"raft"`
	Admin  string `json:"admin"`
	Gossip string `json:"gossip"`
}

// freePorts finds addresses on loopback for so many nodes. All are held until
// all are found, so none comes twice; another process may still take one before
// the node does, which then says so.
func freePorts(nodes int) ([]nodePorts, error) {
	var held []interface{ Close() error }
	defer func() {
		for _, h := range held {
			_ = h.Close()
		}
	}()
	one := func(udp bool) (string, error) {
		const tries = 20
		for range tries {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return "", fmt.Errorf("find a free port: %w", err)
			}
			held = append(held, lis)
			addr := lis.Addr().String()
			if !udp {
				return addr, nil
			}
			packets, err := net.ListenPacket("udp", addr)
			if err == nil {
				held = append(held, packets)
				return addr, nil
			}
		}
		return "", fmt.Errorf("no port is free for UDP and TCP")
	}
	found := make([]nodePorts, nodes)
	for i := range found {
		for _, p := range []struct {
			into *string
			udp  bool
		}{{&found[i].API, false}, {&found[i].Raft, false}, {&found[i].Admin, false}, {&found[i].Gossip, true}} {
			var err error
			if *p.into, err = one(p.udp); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}
