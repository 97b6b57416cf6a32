package main

import (
	"context"
	"errors"
	"net"
	"os"

	"go.uber.org/zap"

	"oncegate/cmd/oncegate/config"
	"oncegate/providers/mock"
)

// stage is a gateway and its upstream in this process, over real HTTP: the
// embedded store in a directory of its own, the mock on a port of its own.
type stage struct {
	mock     *mock.Mock
	upstream string // host:port of the mock
	gateway  string // host:port
	admin    string // likewise
	store    opened

	undo []func() error // of each step that was taken
	stop func() error   // brings the gateway down
}

// openStage sets one up. configure gives the gateway's configuration, for a
// store in dir and a mock upstream at an address. The caller closes it.
func openStage(ctx context.Context, log *zap.Logger, configure func(dir, upstream string) (*config.Config, error)) (s *stage, err error) {
	s = &stage{mock: mock.New(mock.Options{}), stop: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	dir, err := os.MkdirTemp("", "oncegate-")
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, func() error { return os.RemoveAll(dir) })

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	s.upstream = l.Addr().String()
	served := make(chan error, 1)
	mocks, stopMock := context.WithCancel(context.WithoutCancel(ctx))
	go func() { served <- s.mock.Serve(mocks, l) }()
	s.undo = append(s.undo, func() error { stopMock(); return <-served })

	conf, err := configure(dir, s.upstream)
	if err != nil {
		return s, err
	}
	if s.store, err = openStore(conf, log); err != nil {
		return s, err
	}
	s.undo = append(s.undo, s.store.Close)

	gates, stopGate := context.WithCancel(ctx)
	ready, ended := make(chan [2]net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- serve(gates, func() {}, conf, s.store, log, func(data, admin net.Addr) { ready <- [2]net.Addr{data, admin} })
	}()
	select {
	case err := <-ended:
		stopGate()
		return s, err
	case at := <-ready:
		s.gateway, s.admin = at[0].String(), at[1].String()
		s.stop = func() error { stopGate(); return <-ended }
		return s, nil
	}
}

// stopGateway brings the gateway down, before its store and its upstream.
func (s *stage) stopGateway() error {
	stop := s.stop
	s.stop = func() error { return nil }
	return stop()
}

// close takes everything down, the last that was set up first.
func (s *stage) close() error {
	err := s.stopGateway()
	for i := len(s.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, s.undo[i]())
	}
	s.undo = nil
	return err
}
