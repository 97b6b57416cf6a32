package redis

import (
	"testing"

	"oncegate/cache/redis/redistest"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--requirepass", "pw")
	sentinels := redistest.StartSentinel(t, "main", master)
	s := mustOpen(t, "redis+sentinel://:pw@"+sentinels.Addr+"/main", Options{})
	mustSecret(t, s)
	follows(t, s, s)
	if n := master.Do("exists", recordName(claim(200).Key)); n != int64(1) {
		t.Error("the record is not on the master that the sentinel names")
	}
}
