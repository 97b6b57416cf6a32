package cache

// FrameKind says what a frame is to its reader.
type FrameKind uint8

const (
	HeadFrame  FrameKind = iota + 1 // status and headers; the first frame of every log
	BodyFrame                       // bytes of the answer: of SSE, whole events
	UsageFrame                      // a usage event, only for readers that asked for it
	ErrorFrame                      // an error told inside a stream that had begun
	BillFrame                       // what the whole answer cost; the last frame, shown to no client
)

// Frame is one entry of a record's log. It is never changed once appended.
type Frame struct {
	Kind FrameKind
	Head *Head  // HeadFrame, ErrorFrame
	Bill *Bill  // BillFrame
	Data []byte // the others: bytes for the client, as they came
}

// Head is how an answer begins.
type Head struct {
	Status   int
	Header   map[string][]string // what every reader of the record gets; canonical names
	Own      map[string][]string // what the leader's own client gets beside it; never stored
	Failed   bool                // an upstream failure after its attempts
	Reason   string              // why, in the closed list of reasons; empty for an answer
	Target   string              // who answered: provider/model
	Attempts int                 // upstream attempts made so far
	Events   bool                // text/event-stream
}

// size is what a frame counts against a log's window.
func (f Frame) size() int64 { return int64(len(f.Data)) + 64 }

func size(frames []Frame) (n int64) {
	for _, f := range frames {
		n += f.size()
	}
	return n
}
