package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockEvery is how often a start asks again for a directory that is in use.
const lockEvery = 50 * time.Millisecond

// lockDir makes dir this process's alone until the file is closed, or the
// process is gone however it ended. It waits up to wait for a holder to let
// go, and then says who holds it; waiting, which may be nil, is told at once.
func lockDir(dir string, wait time.Duration, waiting func(holder string)) (*os.File, error) {
	name := filepath.Join(dir, "lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the store's lock file: %w", err)
	}
	for start := time.Now(); ; time.Sleep(lockEvery) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w (the store needs a file system with flock)", name, err)
		}
		if over := time.Since(start) >= wait; over || waiting != nil {
			holder := "another process"
			if b, _ := io.ReadAll(io.NewSectionReader(f, 0, 32)); len(b) > 0 {
				holder = "process " + strings.TrimSpace(string(b))
			}
			if !over {
				waiting(holder)
				waiting = nil
				continue
			}
			f.Close()
			return nil, fmt.Errorf("%s is in use by %s: stop it first, or give this one a directory of its own (store.url)", dir, holder)
		}
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := errors.Join(f.Truncate(0), second(f.WriteAt([]byte(pid), 0))); err != nil {
		f.Close()
		return nil, fmt.Errorf("write the store's lock file: %w", err)
	}
	return f, nil
}

func second(_ int, err error) error { return err }
