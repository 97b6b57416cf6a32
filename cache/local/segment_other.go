//go:build !linux

package local

import "os"

// mapSegment gives none: the file is written instead.
func mapSegment(*os.File, int64) []byte { return nil }

func unmapSegment([]byte) {}
