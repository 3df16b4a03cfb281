package framing_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
)

func Example() {
	var conn bytes.Buffer
	if err := framing.WriteJSON(&conn, map[string]int{"step": 7}, 100); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%q\n", conn.Bytes())
	var got struct{ Step int }
	if err := framing.ReadJSON(&conn, &got, 100); err != nil {
		fmt.Println(err)
	}
	fmt.Println(got.Step)
	// Output:
	// "\n\x00\x00\x00{\"step\":7}"
	// 7
}

// A message comes back as it was, whatever its length and however few bytes come at once.
func TestMessagesComeBackAsTheyWere(t *testing.T) {
	var buf []byte
	for _, n := range []int{0, 1, 3, 4, 5, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000} {
		want := bytes.Repeat([]byte{'x', 'y', 'z'}, n/3+1)[:n]
		var conn bytes.Buffer
		if err := errors.Join(framing.Write(&conn, want, n), framing.Write(&conn, nil, n)); err != nil {
			t.Fatal(err)
		}
		var err error
		r := iotest.OneByteReader(&conn)
		if buf, err = framing.Read(r, buf, n); err != nil || !bytes.Equal(buf, want) {
			t.Errorf("%d bytes: got %d, %v", n, len(buf), err)
		}
		if empty, err := framing.Read(r, nil, 0); err != nil || len(empty) != 0 {
			t.Errorf("the empty message behind it: got %d bytes, %v", len(empty), err)
		}
		if _, err := framing.Read(r, nil, n); !errors.Is(err, io.EOF) {
			t.Errorf("the end: got %v, want %v", err, io.EOF)
		}
	}
}

// The memory of the message before is used again.
func TestMemoryIsUsedAgain(t *testing.T) {
	var conn bytes.Buffer
	message, buf := make([]byte, 1000), make([]byte, 0, 2000)
	if n := testing.AllocsPerRun(10, func() {
		conn.Reset()
		conn.Write(framing.AppendHead(conn.AvailableBuffer(), len(message)))
		conn.Write(message)
		var err error
		if buf, err = framing.Read(&conn, buf, 1000); err != nil || len(buf) != 1000 {
			t.Fatal(len(buf), err)
		}
	}); n > 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestLongMessagesAreRefused(t *testing.T) {
	var conn bytes.Buffer
	err := framing.Write(&conn, make([]byte, 11), 10)
	var long *framing.LengthError
	if !errors.As(err, &long) || *long != (framing.LengthError{Length: 11, Most: 10}) || conn.Len() != 0 {
		t.Errorf("written: got %v and %d bytes, want an error and none", err, conn.Len())
	}
	if err := framing.WriteJSON(&conn, strings.Repeat("x", 9), 10); !errors.As(err, &long) || conn.Len() != 0 {
		t.Errorf("written as JSON: got %v and %d bytes, want an error and none", err, conn.Len())
	}
	r := strings.NewReader("\xff\xff\xff\xff12345")
	if _, err := framing.Read(r, nil, 10); !errors.As(err, &long) || err.Error() != "got a message of 4294967295 bytes, want at most 10" || r.Len() != 5 {
		t.Errorf("read: got %v with %d bytes left, want an error before the message is read", err, r.Len())
	}
	if long.Line() {
		t.Error("4294967295 bytes are taken for a line of JSON")
	}
}

// A peer that speaks in lines of JSON can be told from one that sends too much.
func TestALineOfJSONIsRecognised(t *testing.T) {
	_, err := framing.Read(strings.NewReader(`{"hello":{}}`+"\n"), nil, 1<<20)
	var long *framing.LengthError
	if !errors.As(err, &long) || !long.Line() {
		t.Errorf("got %v, want that it is a line", err)
	}
}

// Memory is taken as the bytes come: a length alone costs the reader next to nothing.
func TestALengthAloneTakesNoMemory(t *testing.T) {
	const length = 1 << 30
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := framing.Read(bytes.NewReader(append(framing.AppendHead(nil, length), "123"...)), nil, length)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("a message of %d bytes of which 3 came took %d bytes", length, got)
	}
}

// A connection that ends within a frame ends unexpectedly.
func TestCutFrames(t *testing.T) {
	whole := append(framing.AppendHead(nil, 5), "12345"...)
	for n := 1; n < len(whole); n++ {
		if _, err := framing.Read(bytes.NewReader(whole[:n]), nil, 5); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of %d: got %v, want %v", n, len(whole), err, io.ErrUnexpectedEOF)
		}
	}
}

// The error of the connection is passed on: a deadline is the caller's, and is recognised.
func TestTheCallersDeadlineHolds(t *testing.T) {
	for _, sent := range []string{"", "\x05\x00", "\x05\x00\x00\x0012"} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			go func() { _, _ = io.WriteString(there, sent) }()
			_ = here.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := framing.Read(here, nil, 5); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %q: got %v, want %v", sent, err, os.ErrDeadlineExceeded)
			}
		})
	}
}

func TestWhatIsNotTheJSONIsAnError(t *testing.T) {
	var v struct{ A int }
	for _, text := range []string{"", "{", `{"A":"x"}`, `{"A":1}{`} {
		var conn bytes.Buffer
		if err := framing.Write(&conn, []byte(text), 100); err != nil {
			t.Fatal(err)
		}
		if err := framing.ReadJSON(&conn, &v, 100); err == nil || !strings.HasPrefix(err.Error(), "got a message that is not") {
			t.Errorf("%q: got %v, want an error", text, err)
		}
	}
}

// Whatever comes, what is read is written the same, and is not longer than asked for.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00ab"))
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Add([]byte(`{"hello":{}}`))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const most = 100
		r := bytes.NewReader(in)
		message, err := framing.Read(r, nil, most)
		var long *framing.LengthError
		switch {
		case err == nil:
			var out bytes.Buffer
			if err := framing.Write(&out, message, most); err != nil || !bytes.Equal(out.Bytes(), in[:len(in)-r.Len()]) {
				t.Errorf("%q was written as %q, %v", in, out.Bytes(), err)
			}
		case errors.Is(err, io.EOF) && len(in) == 0, errors.Is(err, io.ErrUnexpectedEOF) && r.Len() == 0:
		case errors.As(err, &long) && long.Length > most && r.Len() == len(in)-framing.HeadSize:
		default:
			t.Errorf("%q: got %v with %d bytes left", in, err, r.Len())
		}
	})
}
