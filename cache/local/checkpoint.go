package local

import "time"

const (
	// checkpointEvery is how often what was committed is moved from SQLite's
	// log into its file.
	checkpointEvery = time.Second
	// mostLogged is how many pages the log may have before the writer moves
	// them itself, if the checkpoints beside it can't follow: 64 MiB.
	mostLogged = 16384
)

// checkpoint moves what was committed beside the writer. The writer would do
// it in the middle of a commit, which a dispatch waits for.
func (s *Store) checkpoint() {
	defer close(s.checkpointed)
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	moved := int64(0) // batches
	for {
		select {
		case <-tick.C:
		case <-s.closed:
			return
		}
		batches := s.writer.batches.Load()
		if batches == moved {
			continue
		}
		if _, err := s.db.Exec("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
			s.oops("checkpoint", err)
			continue
		}
		moved = batches
	}
}
