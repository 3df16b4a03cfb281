package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A process that is killed while it writes leaves a file that can be read up to its last whole
// record.
func TestKilledWriterLeavesWholeRecords(t *testing.T) {
	const variable = "METRICS_TEST_EVENT_FOLDER"
	if dir := os.Getenv(variable); dir != "" {
		f, err := NewEventFile(dir, "killed", 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for step := int64(1); ; step++ {
			if err := f.Add(step, time.Now(), Scalar{"train/loss", float64(step)}, Scalar{"train/examples", 8}); err != nil {
				t.Fatal(err)
			}
			if step == 5000 {
				fmt.Println(f.Path())
			}
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriterLeavesWholeRecords$")
	cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if killed := cmd.Process.Kill(); err != nil || killed != nil {
		t.Fatal(err, killed)
	}
	_ = cmd.Wait() // it was killed
	f, err := os.Open(line[:len(line)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := ReadEvents(f)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after %d records: %v, want none or %v", len(events), err, io.ErrUnexpectedEOF)
	}
	if len(events) < 4000 {
		t.Fatalf("got %d records, want those of most of 5000 steps", len(events))
	}
	for i, e := range events[2:] {
		if e.Step != int64(i+1) || len(e.Scalars) != 2 || e.Scalars[0].Value != float64(float32(i+1)) {
			t.Fatalf("record %d is %+v, want step %d", i+2, e, i+1)
		}
	}
}
