package agent

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/launch/process"
)

// A launcher that names two processes alike is told so, by the exit of one that could not be started, and the agent goes on.
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
