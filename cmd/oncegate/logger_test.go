package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
)

// What reads the log through a pipe gets lines of JSON, and nothing else comes
// to stderr: a pipe has nothing to be synced.
func TestLogThroughAPipe(t *testing.T) {
	oops, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = oops
	log, flush := newLogger(w, zapcore.InfoLevel)
	os.Stderr = stderr
	log.Info("one")
	log.Warn("two")
	flush()
	w.Close()
	text, err := io.ReadAll(r)
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) != 2 || !strings.Contains(lines[1], `"msg":"two"`) {
		t.Errorf("%q, %v", text, err)
	}
	if fault, err := os.ReadFile(oops.Name()); err != nil || len(fault) > 0 {
		t.Errorf("it says %q, %v", fault, err)
	}
}
