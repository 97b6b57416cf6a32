package gateway

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unacknowledged says how many bytes the peer's kernel has not acknowledged.
func unacknowledged(c net.Conn) int {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	if err != nil {
		return 0
	}
	return n
}
