package redis

import (
	"context"
	"encoding/hex"

	"oncegate/cache"
)

// Forget drops a settled completion and tells the audit, in one step.
func (s *Store) Forget(_ context.Context, k cache.Key, actor, reason string) error {
	t := tag(k)
	reply, err := s.durably(recordForgetScript, t, []string{recordName(k), writeNames[t][auditOfWrites]},
		hex.EncodeToString(k[:]), stepWords(cache.Step{Actor: actor, Reason: reason}))
	if err == nil && reply[0] == "none" {
		return cache.ErrNone
	}
	return err
}
