package redis

import (
	"encoding/hex"
	"slices"
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

// answerName is where the answer of a completed write is.
func answerName(k cache.Key) string { return recordName(k) + ":answer" }

// writeNames are a shard's own of writes, in the order of write_preamble.lua.
var writeNames = func() (names [tags][]string) {
	for t := range names {
		for _, name := range []string{"wfences", "wflight", "tail", "writes", "unknown", "doubts", "wends", "audit"} {
			names[t] = append(names[t], tagNames[t]+name)
		}
	}
	return names
}()

// places in writeNames
const (
	inflightWrites = 1
	allWrites      = 3
	unknownWrites  = 4
	doubtsOfTools  = 5
	endsOfWrites   = 6
	auditOfWrites  = 7
)

// writeKeys are what each step of a write may touch.
func writeKeys(k cache.Key) []string {
	return slices.Concat(writeNames[tag(k)], []string{recordName(k), answerName(k)})
}

// ofWrite says whether a claim is one of a write. Their fences have a bit that
// those of completions, which are microseconds, lack until the year 2112.
func ofWrite(h cache.Hold) bool { return h.Fence>>52 == 1 }

func fencesName(t int) string { return tagNames[t] + "fences" }

func probeName(t int) string { return tagNames[t] + "probe" }

// Of the ledger, each shard has what waits to be folded; the buckets and how
// far each shard is folded are together, on the server of the first tag.

const ledgerTag = 0

func tailName(t int) string { return tagNames[t] + "tail" }

func inflightName(t int) string { return tagNames[t] + "inflight" }

func headName(t int) string { return tagNames[t] + "head" }

func pushedName(t int, node string) string { return tagNames[t] + "pushed:" + node }

var (
	folderName = tagNames[ledgerTag] + "folder"
	foldedName = tagNames[ledgerTag] + "folded"
	listNames  = [...]string{
		cache.Minute:  tagNames[ledgerTag] + "minutes",
		cache.Quarter: tagNames[ledgerTag] + "quarters",
		cache.Day:     tagNames[ledgerTag] + "days",
	}
)

// bucketName of one that is at a place in its level's list.
func bucketName(l cache.Level, place int64) string {
	return tagNames[ledgerTag] + [...]string{cache.Minute: "minute:", cache.Quarter: "quarter:", cache.Day: "day:"}[l] +
		strconv.FormatInt(place, 10)
}

// nodeChannel is where a node hears that logs of its records are wanted.
func nodeChannel(id string) string { return prefix + "node:" + id }
