package main

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports of routes are dialled before anybody listens on them, and must still be
// free then. These lie below those that systems give to outgoing connections,
// and beside those that the black-box tests take.
const firstRoute, lastRoute = 10000, 20000

// routeAddresses returns n loopback addresses that nobody listens on.
func routeAddresses(n int) ([]string, error) {
	var addrs []string
	next := rand.IntN(lastRoute - firstRoute)
	for range lastRoute - firstRoute {
		next = (next + 1) % (lastRoute - firstRoute)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstRoute+next))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		if addrs = append(addrs, addr); len(addrs) == n {
			return addrs, nil
		}
	}
	return nil, errors.New("no free ports for routes")
}
