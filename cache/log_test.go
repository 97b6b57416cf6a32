package cache

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func data(s string) Frame { return Frame{Kind: BodyFrame, Data: []byte(s)} }

func said(frames []Frame) (s string) {
	for _, f := range frames {
		s += string(f.Data)
	}
	return s
}

// follow reads to the end, as a client does.
func follow(r *Reader) string {
	defer r.Leave()
	var got []Frame
	for {
		var ended bool
		if got, _, ended = r.Take(got); ended {
			return said(got)
		}
		<-r.Woken()
	}
}

func join(t *testing.T, l *Log) *Reader {
	t.Helper()
	r, ok := l.Join(time.Time{})
	if !ok {
		t.Fatal("the log takes no reader")
	}
	return r
}

func take(r *Reader) string {
	frames, _, _ := r.Take(nil)
	return said(frames)
}

func TestLogLateJoinersGetTheBeginningFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(1 << 20)
		var want strings.Builder
		var wg sync.WaitGroup
		for range 100 {
			for range 3 { // three join before each frame
				r := join(t, l)
				wg.Go(func() {
					if got := follow(r); got != want.String() {
						t.Errorf("a reader got %q", got)
					}
				})
			}
			s := string(rune('a' + want.Len()%26))
			want.WriteString(s)
			if err := l.Append(t.Context(), data(s)); err != nil {
				t.Fatal(err)
			}
		}
		want.WriteString("end")
		l.End(data("end"))
		r := join(t, l) // even after the end
		if got := follow(r); got != want.String() {
			t.Errorf("the last got %q", got)
		}
		wg.Wait()
		if l.Readers() != 0 {
			t.Errorf("%d readers are left", l.Readers())
		}
	})
}

func TestLogSlowReaderHoldsBackNobodyWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(10_000)
		slow, quick := join(t, l), join(t, l)
		for range 9 {
			if err := l.Append(t.Context(), data(strings.Repeat("x", 1000))); err != nil {
				t.Fatal(err)
			}
			if got := take(quick); len(got) != 1000 {
				t.Fatalf("the quick one got %d", len(got))
			}
		}
		if got := take(slow); len(got) != 9000 {
			t.Errorf("the slow one got %d", len(got))
		}
		if frames, whole := l.Whole(); !whole || len(frames) != 9 {
			t.Errorf("%d frames, whole: %v", len(frames), whole)
		}
	})
}

func TestLogBeyondTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window, frame, frames = 10_000, 1000, 100
		l := NewLog(window)
		slow, quick := join(t, l), join(t, l)
		quickly := make(chan string, 1)
		go func() { quickly <- follow(quick) }()
		appended := make(chan int, frames)
		go func() {
			for n := range frames {
				if err := l.Append(t.Context(), data(strings.Repeat(string(rune('a'+n%26)), frame))); err != nil {
					t.Error(err)
				}
				appended <- n
			}
			l.End(data("."))
		}()
		synctest.Wait()
		if n := len(appended); n != window/(frame+64) {
			t.Errorf("the leader is %d frames ahead of the slowest reader", n)
		}
		if _, ok := l.Join(time.Time{}); ok {
			t.Error("a log beyond its window takes a reader, who would miss its beginning")
		}
		if l.abandoned() {
			t.Error("it counts as abandoned")
		}
		if _, whole := l.Whole(); whole {
			t.Error("it counts as whole")
		}
		var got strings.Builder
		for {
			frames, _, ended := slow.Take(nil)
			got.WriteString(said(frames))
			if ended {
				break
			}
			if l.mu.Lock(); l.held > window {
				t.Errorf("%d bytes are held", l.held)
			}
			l.mu.Unlock()
			<-slow.Woken()
		}
		if one := <-quickly; one != got.String() || len(got.String()) != frame*frames+1 {
			t.Errorf("the slow one got %d bytes, the quick one %d", len(got.String()), len(one))
		}
	})
}

func TestLogBeyondTheWindowWithoutItsSlowest(t *testing.T) {
	for name, end := range map[string]func(l *Log, slow *Reader, cancel func(error)){
		"it leaves":         func(_ *Log, slow *Reader, _ func(error)) { slow.Leave() },
		"the call is ended": func(_ *Log, _ *Reader, cancel func(error)) { cancel(errors.New("deadline")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				l := NewLog(1000)
				slow := join(t, l)
				l.Append(ctx, data(strings.Repeat("a", 900)))
				done := make(chan error, 1)
				go func() { done <- l.Append(ctx, data(strings.Repeat("b", 900))) }()
				synctest.Wait()
				select {
				case err := <-done:
					t.Fatalf("Append did not wait: %v", err)
				default:
				}
				end(l, slow, cancel)
				if err := <-done; (err != nil) != (ctx.Err() != nil) || err != nil && err.Error() != "deadline" {
					t.Errorf("Append gave %v", err)
				}
				if ctx.Err() == nil { // with nobody there it runs on, holding no more than the window
					for range 10 {
						l.Append(ctx, data(strings.Repeat("c", 900)))
					}
					if l.held > 1000 {
						t.Errorf("%d bytes are held", l.held)
					}
				} else if got := take(slow); strings.Contains(got, "b") {
					t.Error("what was refused was added")
				}
			})
		})
	}
}

// A frame larger than the window goes through, alone.
func TestLogFrameLargerThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(100)
		r := join(t, l)
		got := make(chan string, 1)
		go func() { got <- follow(r) }()
		for range 3 {
			if err := l.Append(t.Context(), data(strings.Repeat("x", 1000))); err != nil {
				t.Fatal(err)
			}
		}
		l.End()
		if n := len(<-got); n != 3000 {
			t.Errorf("the reader got %d bytes", n)
		}
	})
}

func TestLogOpened(t *testing.T) {
	l := NewLog(1000)
	r := join(t, l)
	if frames, opened, ended := r.Take(nil); frames != nil || opened != nil || ended {
		t.Error("an empty log has something")
	}
	head := &Head{Status: 200}
	l.Open(head)
	<-r.Woken()
	if _, opened, _ := r.Take(nil); opened != head {
		t.Error("the reader does not see the head")
	}
	if h, _ := l.Fate(); h != nil {
		t.Error("the log has a head before it was appended")
	}
	l.Append(t.Context(), Frame{Kind: HeadFrame, Head: head})
	if h, _ := l.Fate(); h != head {
		t.Error("the log has no head")
	}
}

func TestLogIdleAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(1000)
		told := 0
		r := join(t, l)
		l.OnIdle(func() { told++ })
		gone := l.Gone()
		time.Sleep(time.Second)
		if l.IdleFor() != 0 || told != 0 {
			t.Error("idle with a reader")
		}
		second := join(t, l)
		r.Leave()
		r.Leave()
		select {
		case <-gone:
			t.Error("gone with a reader")
		default:
		}
		second.Leave()
		<-gone
		<-l.Gone()
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		time.Sleep(3 * time.Second)
		if l.IdleFor() != 3*time.Second {
			t.Errorf("idle for %v", l.IdleFor())
		}
		third := join(t, l)
		if l.IdleFor() != 0 {
			t.Error("idle with a reader")
		}
		select {
		case <-l.Gone():
			t.Error("gone with a reader")
		default:
		}
		gone = l.Gone()
		l.End()
		third.Leave()
		<-gone // after the end too: a drain waits for it
		if told != 1 {
			t.Error("told of an ended log")
		}
		late := 0
		l.OnIdle(func() { late++ })
		unread := NewLog(1000)
		unread.OnIdle(func() { late += 10 })
		if late != 10 {
			t.Errorf("late is %d: only a log in flight that nobody reads tells at once", late)
		}
	})
}

func TestLogLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(1000)
		if l.Left() != 0 {
			t.Error("with nobody there is time left")
		}
		a, _ := l.Join(time.Now().Add(time.Second))
		b, _ := l.Join(time.Now().Add(time.Minute))
		if l.Left() != time.Minute {
			t.Errorf("left: %v", l.Left())
		}
		b.Leave()
		time.Sleep(2 * time.Second)
		if l.Left() != 0 {
			t.Errorf("left: %v", l.Left())
		}
		l.Append(t.Context(), data("x"))
		a.Take(nil)
		if l.Left() < 24*time.Hour {
			t.Error("a reader that has begun waits on")
		}
	})
}

func TestLogAbandon(t *testing.T) {
	l := NewLog(1000)
	r := join(t, l)
	if l.Abandon() {
		t.Error("abandoned with a reader")
	}
	r.Leave()
	for range 2 {
		if !l.Abandon() {
			t.Error("not abandoned without a reader")
		}
	}
	if _, ok := l.Join(time.Time{}); ok {
		t.Error("an abandoned log takes a reader")
	}
}

func TestSettledLog(t *testing.T) {
	l := SettledLog(&Result{Frames: []Frame{data("a"), data("b")}})
	<-l.Done()
	if got := follow(join(t, l)); got != "ab" {
		t.Errorf("it says %q", got)
	}
}

// Readers that come, read and leave while the leader appends, under -race.
func TestLogTogether(t *testing.T) {
	l := NewLog(1 << 20)
	stay := join(t, l)
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for range 20 {
				r, ok := l.Join(time.Time{})
				if !ok {
					t.Error("refused")
					return
				}
				var got []Frame
				for {
					var ended bool
					if got, _, ended = r.Take(got); ended || len(got) >= 5*n {
						break
					}
					<-r.Woken()
				}
				if s := said(got); !strings.HasPrefix(strings.Repeat("0123456789", 100), s) {
					t.Errorf("got %q", s)
				}
				r.Leave()
			}
		})
	}
	for i := range 1000 {
		if err := l.Append(t.Context(), data(string(rune('0'+i%10)))); err != nil {
			t.Error(err)
		}
	}
	l.End()
	wg.Wait()
	if got := follow(stay); got != strings.Repeat("0123456789", 100) {
		t.Errorf("%d bytes", len(got))
	}
}
