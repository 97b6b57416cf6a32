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

// newWriteScript makes one of writes, which share some more.
func newWriteScript(name, text string) *script { return newScript(name, writePreamble+text) }

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
	//go:embed lua/log_push.lua
	logPushText string
	//go:embed lua/log_read.lua
	logReadText string
	//go:embed lua/record_forget.lua
	recordForgetText string
	//go:embed lua/write_preamble.lua
	writePreamble string
	//go:embed lua/write_claim.lua
	writeClaimText string
	//go:embed lua/write_dispatch.lua
	writeDispatchText string
	//go:embed lua/write_withdraw.lua
	writeWithdrawText string
	//go:embed lua/write_settle.lua
	writeSettleText string
	//go:embed lua/write_resolve.lua
	writeResolveText string
	//go:embed lua/write_read.lua
	writeReadText string
	//go:embed lua/write_renew.lua
	writeRenewText string
	//go:embed lua/write_landed.lua
	writeLandedText string
	//go:embed lua/write_tidy.lua
	writeTidyText string
	//go:embed lua/write_record.lua
	writeRecordText string
	//go:embed lua/write_records.lua
	writeRecordsText string
	//go:embed lua/entries.lua
	entriesText string
	//go:embed lua/audits.lua
	auditsText string
	//go:embed lua/doubts.lua
	doubtsText string

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
	logPushScript = newScript("log push", logPushText)
	logReadScript = newScript("log read", logReadText)

	recordForgetScript = newScript("record forget", recordForgetText)

	writeClaimScript    = newWriteScript("write claim", writeClaimText)
	writeDispatchScript = newWriteScript("write dispatch", writeDispatchText)
	writeWithdrawScript = newWriteScript("write withdraw", writeWithdrawText)
	writeSettleScript   = newWriteScript("write settle", writeSettleText)
	writeResolveScript  = newWriteScript("write resolve", writeResolveText)
	writeReadScript     = newWriteScript("write read", writeReadText)
	writeRenewScript    = newWriteScript("write renew", writeRenewText)
	writeLandedScript   = newWriteScript("write landed", writeLandedText)
	writeTidyScript     = newWriteScript("write tidy", writeTidyText)
	writeRecordScript   = newWriteScript("write record", writeRecordText)
	writeRecordsScript  = newWriteScript("write records", writeRecordsText)
	entriesScript       = newScript("entries", entriesText)
	auditsScript        = newScript("audits", auditsText)
	doubtsScript        = newScript("doubts", doubtsText)
)
