package gateway

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"oncegate/cache"
)

// contradicted looks at an answer of a write that was executed, and that the
// store did not take: it had been decided by then what became of the write. If
// that was not that it happened, its key was given free, and it may have run
// again: the answer is dropped and counted.
func (r *toolRun) contradicted(status int, err error) {
	if !errors.Is(err, cache.ErrFenced) {
		return
	}
	rec, err := r.g.opt.Store.Record(context.Background(), r.c.key)
	if err == nil && rec.Fence == r.entry.Fence && (rec.State == cache.Completed || rec.State == cache.Tombstone) {
		return
	}
	r.g.metrics.late.WithLabelValues(r.t.Name).Inc()
	r.g.log.Error("a write was executed after its key was given free: look at the API whether it was made twice",
		zap.String("tool", r.t.Name), zap.String("key", keyText(r.c.key)), zap.Uint64("fence", uint64(r.entry.Fence)), zap.Int("status", status))
}
