package demo

import (
	"context"
	"io"
	"net"
	"sync/atomic"
)

// lossy is a way to an address on which every nth answer is lost: its
// connection is reset when the answer arrives. It lasts until ctx ends.
func lossy(ctx context.Context, address string, nth int64) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	var taken atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go carry(conn.(*net.TCPConn), address, taken.Add(1)%nth == 0)
		}
	}()
	return l.Addr().String(), nil
}

// carry moves bytes both ways, but for an answer that is to be lost.
func carry(client *net.TCPConn, address string, lose bool) {
	defer client.Close()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	go io.Copy(far, client)
	if !lose {
		io.Copy(client, far)
		return
	}
	io.ReadFull(far, make([]byte, 1)) // it is on its way
	io.Copy(io.Discard, far)
	client.SetLinger(0)
}
