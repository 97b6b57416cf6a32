package main

import (
	"io"
	"os"
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
	c.TimeKey, c.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	c.EncodeDuration = zapcore.SecondsDurationEncoder
	out := &zapcore.BufferedWriteSyncer{WS: zapcore.AddSync(w), FlushInterval: time.Second}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(c), out, level)
	log = zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Level >= zapcore.WarnLevel {
			return out.Sync()
		}
		return nil
	}))
	return log, func() { out.Stop() }
}
