package providers

import (
	"net"
	"syscall"
)

// quietness gives what asks whether an idle connection is still open, with
// nothing to be read: an end, or words that nobody asked for, make it useless.
func quietness(c net.Conn) func() bool {
	s, ok := beneathTLS(c).(syscall.Conn)
	if !ok {
		return always
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return always
	}
	quiet := false
	look := func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		quiet = err == syscall.EAGAIN
		return true
	}
	return func() bool { return raw.Read(look) == nil && quiet }
}
