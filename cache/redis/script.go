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
	text = common + text
	sum := sha1.Sum([]byte(text))
	return &script{name, text, hex.EncodeToString(sum[:])}
}

var (
	//go:embed lua/common.lua
	common string
	//go:embed lua/claim.lua
	claimText string
	//go:embed lua/renew.lua
	renewText string
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

	claimScript  = newScript("claim", claimText)
	renewScript  = newScript("renew", renewText)
	appendScript = newScript("append", appendText)
	readScript   = newScript("read", readText)
	settleScript = newScript("settle", settleText)
	oweScript    = newScript("owe", oweText)
	noteScript   = newScript("note", noteText)
	landedScript = newScript("landed", landedText)
	probeScript  = newScript("probe", probeText)
)
