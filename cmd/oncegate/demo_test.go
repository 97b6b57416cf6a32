package main

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The demo shows what it says it does, and the ledger agrees with the
// upstream's count.
func TestDemo(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"demo"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	rows := regexp.MustCompile(`(?m)^(.*\S) +(\d+) (?:billed|failed) +(\d+) (?:billed|failed)$`).FindAllStringSubmatch(out.String(), -1)
	want := [][2]string{{"105", "100"}, {"300", "100"}, {"10", "1"}}
	if len(rows) != 4 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, w := range want { // a machine that is busy may keep a try from reaching the upstream at all
		if rows[i][2] != w[0] && !(i == 1 && rows[i][2] > "290") || rows[i][3] != w[1] {
			t.Errorf("%s: %s and %s, want %v", rows[i][1], rows[i][2], rows[i][3], w)
		}
	}
	if failed, _ := strconv.Atoi(rows[3][3]); rows[3][2] != "10" || failed > 2 {
		t.Errorf("%v", rows[3][1:])
	}
	counts := regexp.MustCompile(`it counted (\d+), the gateway's ledger\n(\d+) billed and 0 in doubt`).FindStringSubmatch(out.String())
	if counts == nil || counts[1] != counts[2] {
		t.Errorf("the upstream and the ledger disagree: %v", counts)
	}
	if !strings.Contains(out.String(), "up to 3 attempts, backoff from 50ms up to 400ms") {
		t.Error("no word of the policy")
	}
}
