package cachetest

import (
	"context"
	"fmt"
	"time"

	"oncegate/cache"
)

// Faulty is a store some of whose steps fail with ErrAway: before they have
// their effect, or after it, as when an acknowledgement is lost.
type Faulty struct {
	cache.Store
	Before func(step string) bool // nil: never; step is the method's name in lower case
	After  func(step string) bool
}

var _ cache.Store = (*Faulty)(nil)

func (f *Faulty) fail(when func(string) bool, step, how string) error {
	if when != nil && when(step) {
		return fmt.Errorf("%w: %s was lost %s its effect", cache.ErrAway, step, how)
	}
	return nil
}

// run does a step with its faults; an error of the step itself is what the
// caller would have been told, so it is lost too.
func (f *Faulty) run(step string, do func() error) error {
	if err := f.fail(f.Before, step, "before"); err != nil {
		return err
	}
	err := do()
	if lost := f.fail(f.After, step, "after"); lost != nil {
		return fmt.Errorf("%w: %w", lost, cache.ErrLost)
	}
	return err
}

func (f *Faulty) Claim(ctx context.Context, c cache.Claim) (g cache.Grant, err error) {
	err = f.run("claim", func() (err error) { g, err = f.Store.Claim(ctx, c); return err })
	if err != nil {
		g = cache.Grant{}
	}
	return g, err
}

func (f *Faulty) Renew(ctx context.Context, h cache.Hold, lease time.Duration) (wanted bool, err error) {
	err = f.run("renew", func() (err error) { wanted, err = f.Store.Renew(ctx, h, lease); return err })
	return wanted && err == nil, err
}

func (f *Faulty) Ask(ctx context.Context, h cache.Hold) (wanted bool, err error) {
	err = f.run("ask", func() (err error) { wanted, err = f.Store.Ask(ctx, h); return err })
	return wanted && err == nil, err
}

func (f *Faulty) Append(ctx context.Context, h cache.Hold, from int, frames []cache.Frame) error {
	return f.run("append", func() error { return f.Store.Append(ctx, h, from, frames) })
}

func (f *Faulty) Read(ctx context.Context, h cache.Hold, from int) (frames []cache.Frame, res *cache.Result, err error) {
	err = f.run("read", func() (err error) { frames, res, err = f.Store.Read(ctx, h, from); return err })
	if err != nil {
		return nil, nil, err
	}
	return frames, res, nil
}

func (f *Faulty) Settle(ctx context.Context, h cache.Hold, s cache.Settlement) error {
	return f.run("settle", func() error { return f.Store.Settle(ctx, h, s) })
}

func (f *Faulty) Owe(ctx context.Context, h cache.Hold, n cache.Nonce, d time.Duration) error {
	return f.run("owe", func() error { return f.Store.Owe(ctx, h, n, d) })
}

func (f *Faulty) Forget(ctx context.Context, k cache.Key, actor, reason string) error {
	return f.run("forget", func() error { return f.Store.Forget(ctx, k, actor, reason) })
}

func (f *Faulty) Dispatch(ctx context.Context, h cache.Hold, n cache.Nonce) error {
	return f.run("dispatch", func() error { return f.Store.Dispatch(ctx, h, n) })
}

func (f *Faulty) Withdraw(ctx context.Context, h cache.Hold, n cache.Nonce) error {
	return f.run("withdraw", func() error { return f.Store.Withdraw(ctx, h, n) })
}

func (f *Faulty) Resolve(ctx context.Context, k cache.Key, r cache.Resolution) error {
	return f.run("resolve", func() error { return f.Store.Resolve(ctx, k, r) })
}

func (f *Faulty) Record(ctx context.Context, k cache.Key) (r cache.Record, err error) {
	err = f.run("record", func() (err error) { r, err = f.Store.Record(ctx, k); return err })
	if err != nil {
		r = cache.Record{}
	}
	return r, err
}

func (f *Faulty) Records(ctx context.Context, filter cache.Filter, cursor string, limit int) (page []cache.Record, next string, err error) {
	err = f.run("records", func() (err error) { page, next, err = f.Store.Records(ctx, filter, cursor, limit); return err })
	if err != nil {
		page, next = nil, ""
	}
	return page, next, err
}

func (f *Faulty) Audits(ctx context.Context, cursor string, limit int) (page []cache.Audit, next string, err error) {
	err = f.run("audits", func() (err error) { page, next, err = f.Store.Audits(ctx, cursor, limit); return err })
	if err != nil {
		page, next = nil, ""
	}
	return page, next, err
}

func (f *Faulty) Doubts(ctx context.Context) (d map[string]int64, err error) {
	err = f.run("doubts", func() (err error) { d, err = f.Store.Doubts(ctx); return err })
	if err != nil {
		d = nil
	}
	return d, err
}
