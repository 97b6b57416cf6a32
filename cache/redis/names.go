package redis

import (
	"encoding/hex"
	"strconv"

	"oncegate/cache"
)

// prefix begins the name of every key and channel, so that one rule of an
// access list covers them: ~oncegate:* &oncegate:*
const prefix = "oncegate:"

// tags is how many hash tags there are. What one step touches has one tag, so
// that a cluster keeps it on one server.
const tags = 16

// secretKey holds what all keys are derived from, or how to recognise it.
const secretKey = prefix + "secret"

// tag is chosen by the key, which is an HMAC: nothing a client writes into its
// own key steers it.
func tag(k cache.Key) int { return int(k[0]) % tags }

var tagNames = func() (names [tags]string) {
	for t := range names {
		names[t] = prefix + "{s" + strconv.Itoa(t) + "}:"
	}
	return names
}()

func recordName(k cache.Key) string { return tagNames[tag(k)] + hex.EncodeToString(k[:]) }

// logName also names the channel that tells of new frames.
func logName(h cache.Hold) string {
	return recordName(h.Key) + ":" + strconv.FormatUint(uint64(h.Fence), 10)
}

func fencesName(t int) string { return tagNames[t] + "fences" }

func probeName(t int) string { return tagNames[t] + "probe" }

// nodeChannel is where a node hears that logs of its records are wanted.
func nodeChannel(id string) string { return prefix + "node:" + id }
