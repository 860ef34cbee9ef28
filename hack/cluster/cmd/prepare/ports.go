package main

import (
	"fmt"
	"net"
	"strings"
)

// printFreePorts binds port 0 COUNT times and prints what the kernel gave, all held until the last is
// known, so that no port comes twice. Another process may still take one before it is used: whoever
// starts a server on it must be ready to try again.
func printFreePorts(count int) error {
	ports := make([]string, 0, count)
	for range count {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("no free port on loopback: %w", err)
		}
		defer listener.Close()
		ports = append(ports, fmt.Sprint(listener.Addr().(*net.TCPAddr).Port))
	}
	fmt.Println(strings.Join(ports, " "))
	return nil
}
