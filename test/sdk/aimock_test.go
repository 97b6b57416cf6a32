//go:build sdk

package sdk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// journalled is how many models of its own a suite has at aimock: SUITE-1 and
// so on, one for each check that counts there.
const journalled = 120

// aimock is the upstream that shares no code and no author with us: what was
// run twice is counted in its journal. node/aimock.mjs says what it can play;
// for the rest there is upstream.
var aimock player

// A player is an upstream that takes orders over HTTP.
type player struct {
	URL string
	end func()
}

// journal is where the models of a suite are that aimock plays. Where Node is
// not installed, u takes its place.
func journal(u *upstream) player {
	if aimock.URL == "" {
		return player{URL: u.URL}
	}
	return aimock
}

func startAimock() (player, error) {
	cmd := exec.Command("node", "node/aimock.mjs")
	cmd.Env = append(os.Environ(), "UPSTREAM_KEY="+upstreamKey)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return player{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return player{}, err
	}
	if err := cmd.Start(); err != nil {
		return player{}, err
	}
	kill := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	url, err := bufio.NewReader(out).ReadString('\n')
	kill.Stop()
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return player{}, fmt.Errorf("aimock has not started: %w", err)
	}
	return player{URL: strings.TrimSpace(url), end: func() {
		in.Close()
		cmd.Wait()
	}}, nil
}

func (p player) order(method, model string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequest(method, p.URL+"/script/"+model, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+upstreamKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("aimock: %s %s", resp.Status, text)
	}
	return text, err
}

// set gives model its script and forgets its calls.
func (p player) set(model string, steps ...step) error {
	orders, err := json.Marshal(append([]step{}, steps...))
	if err == nil {
		_, err = p.order(http.MethodPut, model, bytes.NewReader(orders))
	}
	return err
}

// paths are those of the calls of model that the journal has.
func (p player) paths(model string) ([]string, error) {
	text, err := p.order(http.MethodGet, model, nil)
	if err != nil {
		return nil, err
	}
	var calls []struct{ Path string }
	err = json.Unmarshal(text, &calls)
	paths := make([]string, len(calls))
	for i, c := range calls {
		paths[i] = c.Path
	}
	return paths, err
}
