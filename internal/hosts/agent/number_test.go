//go:build unix

package agent

import (
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/process"
)

// A launcher that names two processes alike is told so, by the exit of one that could not be
// started, and the agent goes on.
func TestANumberInUseIsRefusedAndTheAgentGoesOn(t *testing.T) {
	c, _ := serve(t, Config{})
	out := newOutput()
	h, err := c.Start(t.Context(), shell("echo ready; exec sleep 1000"), process.Output{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "ready")
	if err := c.send(kindStart, h.(*handle).number, shell("true")); err != nil {
		t.Fatal(err)
	}
	if e := await(t, h); e.Code != 127 || !strings.Contains(e.Err, "start worker 0: number 1 is in use") {
		t.Errorf("got %s with code %d, want 127 and that the number is in use", e, e.Code)
	}
	again, err := c.Start(t.Context(), shell("exit 3"), process.Output{})
	if err != nil {
		t.Fatal(err)
	}
	if e := await(t, again); e.Code != 3 {
		t.Errorf("the next process: got %s, want exit 3", e)
	}
}

// What could not be started leaves no pipe open.
func TestARefusedNumberLeavesNothingOpen(t *testing.T) {
	open := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("files of a process are listed on Linux alone: ", err)
		}
		return len(files)
	}

	// A collection would close what is forgotten.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	c, _ := serve(t, Config{})
	out := newOutput()
	h, err := c.Start(t.Context(), shell("echo ready; exec sleep 1000"), process.Output{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "ready")
	before, number := open(), h.(*handle).number
	const refused = 40
	for range refused {
		if err := c.send(kindStart, number, shell("true")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Ask(t.Context(), Question{}); err != nil { // frames are answered in their order
		t.Fatal(err)
	}
	if after := open(); after >= before+refused {
		t.Errorf("%d files are open after %d processes that were not started, %d before", after, refused, before)
	}
}

// An agent that has just ended says nothing more; one whose bytes make no sense is given up for
// them.
func TestWhyAnAgentWasLostIsTold(t *testing.T) {
	for _, tc := range []struct {
		// want is what stands behind the plain words.
		name, bytes, want string
	}{
		{"it ended", "", ""},
		{"a frame that is too long", "\xff\xff\xff\xffx\x01\x00\x00\x00", `got a message of 4294967295 bytes, want at most`},
		{"half a frame", "\x0e\x00\x00\x00x\x01\x00\x00\x00{", "unexpected EOF"},
		{"a frame without a number", "\x01\x00\x00\x00x", "got a frame of 1 bytes, want at least 5"},
	} {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go io.Copy(io.Discard, inR)
		go func() {
			io.WriteString(outW, opening)
			f := &frameWriter{w: outW}
			f.sendJSON(kindHello, 0, Hello{})
			io.WriteString(outW, tc.bytes)
			outW.Close()
		}()
		c, err := NewClient(t.Context(), "d1", inW, outR)
		if err != nil {
			t.Fatal(err)
		}
		<-c.Gone()
		_, err = c.Start(t.Context(), shell("true"), process.Output{})
		plain := "launch: start worker 0 on d1: d1: " + ErrLost.Error()
		if !errors.Is(err, ErrLost) || tc.want == "" && err.Error() != plain || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q and %q", tc.name, err, plain, tc.want)
		}
	}
}
