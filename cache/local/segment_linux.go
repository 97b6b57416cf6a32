package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapSegment gives a segment's first size bytes as memory that the kernel
// writes back: as lasting as a plain write, through any kill of this process,
// and without a system call an attempt. The room is taken first, so that a
// full disk shows here. nil: not to be had, and the file is written instead.
func mapSegment(f *os.File, size int64) []byte {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	var mem []byte
	raw.Control(func(fd uintptr) {
		if unix.Fallocate(int(fd), 0, 0, size) == nil {
			mem, err = unix.Mmap(int(fd), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		}
	})
	if err != nil {
		return nil
	}
	return mem
}

func unmapSegment(mem []byte) {
	if mem != nil {
		unix.Munmap(mem)
	}
}
