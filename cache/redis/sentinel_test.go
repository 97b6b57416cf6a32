package redis

import (
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--requirepass", "pw", "--appendonly", "yes", "--appendfsync", "always")
	sentinels := redistest.StartSentinel(t, "main", master)
	s := mustOpen(t, "redis+sentinel://:pw@"+sentinels.Addr+"/main", Options{})
	mustSecret(t, s)
	follows(t, s, s)
	if n := master.Do("exists", recordName(claim(200).Key)); n != int64(1) {
		t.Error("the record is not on the master that the sentinel names")
	}
	if got := s.Durability(); got != "strict" {
		t.Errorf("the master's settings: %s", got)
	}
	// The sentinels can be asked again once the secret is known.
	master.Do("client", "kill", "type", "normal")
	sentinels.Do("client", "kill", "type", "normal")
	sentinels.Do("client", "kill", "type", "pubsub")
	eventually(t, 3*time.Second, "it is used again", func() bool {
		_, err := s.Claim(t.Context(), claim(1))
		return err == nil
	})
}
