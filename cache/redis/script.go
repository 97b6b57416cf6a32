package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// script is one atomic step. The server knows it by its hash.
type script struct {
	name string
	text string
	hash string
}

func newScript(name, text string) *script {
	text = preamble + text
	sum := sha1.Sum([]byte(text))
	return &script{name, text, hex.EncodeToString(sum[:])}
}

var (
	//go:embed lua/preamble.lua
	preamble string
	//go:embed lua/claim.lua
	claimText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/ask.lua
	askText string
	//go:embed lua/append.lua
	appendText string
	//go:embed lua/read.lua
	readText string
	//go:embed lua/settle.lua
	settleText string
	//go:embed lua/owe.lua
	oweText string
	//go:embed lua/note.lua
	noteText string
	//go:embed lua/landed.lua
	landedText string
	//go:embed lua/probe.lua
	probeText string
	//go:embed lua/push.lua
	pushText string
	//go:embed lua/turn.lua
	turnText string
	//go:embed lua/leave.lua
	leaveText string
	//go:embed lua/peek.lua
	peekText string
	//go:embed lua/sums.lua
	sumsText string
	//go:embed lua/fold.lua
	foldText string
	//go:embed lua/list.lua
	listText string
	//go:embed lua/buckets.lua
	bucketsText string
	//go:embed lua/forget.lua
	forgetText string
	//go:embed lua/due.lua
	dueText string

	claimScript   = newScript("claim", claimText)
	renewScript   = newScript("renew", renewText)
	askScript     = newScript("ask", askText)
	appendScript  = newScript("append", appendText)
	readScript    = newScript("read", readText)
	settleScript  = newScript("settle", settleText)
	oweScript     = newScript("owe", oweText)
	noteScript    = newScript("note", noteText)
	landedScript  = newScript("landed", landedText)
	probeScript   = newScript("probe", probeText)
	pushScript    = newScript("push", pushText)
	turnScript    = newScript("turn", turnText)
	leaveScript   = newScript("leave", leaveText)
	peekScript    = newScript("peek", peekText)
	sumsScript    = newScript("sums", sumsText)
	foldScript    = newScript("fold", foldText)
	listScript    = newScript("list", listText)
	bucketsScript = newScript("buckets", bucketsText)
	forgetScript  = newScript("forget", forgetText)
	dueScript     = newScript("due", dueText)
)
