package cache

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func codecSample() []Frame {
	return []Frame{
		{Kind: HeadFrame, Head: &Head{
			Status: 200, Attempts: 2, Events: true, Target: "openai/gpt-4.1",
			Header: map[string][]string{"Content-Type": {"text/event-stream"}, "X-Request-Id": {"a", ""}},
		}},
		{Kind: BodyFrame, Data: []byte("data: {\"a\":0,\"b\":null}\n\n\x00\xff")},
		{Kind: BodyFrame, Data: []byte{}},
		{Kind: UsageFrame, Data: []byte("data: {}\n\n")},
		{Kind: ErrorFrame, Head: &Head{Status: 502, Failed: true, Reason: "stream_broken", Target: "a/b"}, Data: bytes.Repeat([]byte("x"), 300)},
	}
}

func TestCodecRoundTrip(t *testing.T) {
	frames := codecSample()
	frames = append(frames, Frame{Kind: HeadFrame, Head: &Head{Status: 502, Failed: true, Reason: "unreachable"}})
	got, err := DecodeFrames(EncodeFrames(frames))
	if err != nil || !reflect.DeepEqual(got, frames) {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, frames)
	}
	if got, err := DecodeFrames(EncodeFrames(nil)); err != nil || len(got) != 0 {
		t.Fatalf("no frames became %v, %v", got, err)
	}
}

func TestCodecIsDeterministicAndLeavesOwnOut(t *testing.T) {
	frames := codecSample()
	one := EncodeFrames(frames)
	frames[0].Head.Own = map[string][]string{"Openai-Organization": {"secret-org"}}
	for range 20 {
		if two := EncodeFrames(frames); !bytes.Equal(one, two) {
			t.Fatal("the same frames gave other bytes")
		}
	}
}

func TestCodecRefusesDamage(t *testing.T) {
	whole := EncodeFrames(codecSample())
	for n := range whole {
		if _, err := DecodeFrames(whole[:n]); !errors.Is(err, ErrCodec) {
			t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
	for name, b := range map[string][]byte{
		"a later version":   append([]byte{codecVersion + 1}, whole[1:]...),
		"bytes after":       append(bytes.Clone(whole), 0),
		"an unknown kind":   {codecVersion, 1, 9, 0},
		"a huge count":      {codecVersion, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"a huge length":     {codecVersion, 1, byte(BodyFrame), 0xff, 0xff, 0xff, 0xff, 0x0f},
		"an endless number": bytes.Repeat([]byte{codecVersion | 0x80}, 30),
	} {
		if got, err := DecodeFrames(b); !errors.Is(err, ErrCodec) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func FuzzDecodeFrames(f *testing.F) {
	f.Add(EncodeFrames(codecSample()))
	f.Add([]byte{codecVersion, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, err := DecodeFrames(b)
		if err != nil {
			if !errors.Is(err, ErrCodec) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeFrames(EncodeFrames(frames))
		if err != nil || !reflect.DeepEqual(again, frames) {
			t.Fatalf("%+v became %+v, %v", frames, again, err)
		}
	})
}
