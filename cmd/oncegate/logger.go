package main

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger logs to w: lines of JSON, or for a terminal lines to read. Lines of
// JSON go out in batches, at most a second late; a warning takes all before it
// along at once. flush writes what is left.
func newLogger(w io.Writer, level zapcore.Level) (log *zap.Logger, flush func()) {
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		c := zap.NewDevelopmentEncoderConfig()
		c.EncodeLevel = zapcore.CapitalColorLevelEncoder
		c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		core := zapcore.NewCore(zapcore.NewConsoleEncoder(c), zapcore.Lock(f), level)
		return zap.New(core), func() {}
	}
	c := zap.NewProductionEncoderConfig()
	c.TimeKey, c.EncodeTime = "time", encodeTime
	c.EncodeDuration = zapcore.SecondsDurationEncoder
	// A pipe can't be synced, and a file needs not be.
	out := &zapcore.BufferedWriteSyncer{WS: zapcore.AddSync(struct{ io.Writer }{w}), FlushInterval: time.Second}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(c), out, level)
	log = zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Level >= zapcore.WarnLevel {
			return out.Sync()
		}
		return nil
	}))
	return log, func() { out.Stop() }
}

// encodeTime writes a time in RFC 3339, to the millisecond. The second is
// formatted once: a request's line is a good part of what a request costs.
func encodeTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	at := second.Load()
	if s := t.Unix(); at == nil || at.unix != s {
		at = &formattedSecond{unix: s, text: t.UTC().Format("2006-01-02T15:04:05.")}
		second.Store(at)
	}
	var b [24]byte
	ms := t.Nanosecond() / 1e6
	n := copy(b[:], at.text)
	b[n], b[n+1], b[n+2], b[n+3] = byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'
	enc.AppendByteString(b[:n+4])
}

type formattedSecond struct {
	unix int64
	text string // up to the point before the milliseconds
}

var second atomic.Pointer[formattedSecond]
