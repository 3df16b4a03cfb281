//go:build unix

package procgroup

import (
	"bufio"
	"io"
	"os/exec"
	"testing"
)

// What the command has started is killed with it: its output ends.
func TestKillEndsDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600 & echo started; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	group, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "started\n" {
		t.Errorf("the command printed %q (%v), want started", line, err)
	}
	if err := group.Kill(); err != nil {
		t.Error(err)
	}

	// The program sleep holds the other end while it lives.
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed command ended without an error")
	}
}

func TestStartOfNoProgramIsAnError(t *testing.T) {
	if _, err := Start(exec.Command("/no/such/program")); err == nil {
		t.Error("got no error")
	}
}
