//go:build unix

package suggest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// What a program has started ends with it, and nothing else does: it leads a process group of its
// own.
func TestAProgramEndsWithWhatItHasStarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "child")
	// The child holds neither of the program's outputs, so that nothing waits for it.
	e := &External{Command: []string{"sh", "-c", `sleep 1000 >/dev/null 2>&1 & echo $! $$ > "$0"; echo '{"id": 7}'; wait`, file}, Deadline: 20 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := e.Suggest(&tunetest.View{SearchSpace: tune.Space{tune.Real("x", 0, 1)}}, 0, tunetest.Rand(1)); err == nil {
			t.Error("an answer to another question: no error")
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		for begin := time.Now(); runs(pid); time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				syscall.Kill(pid, syscall.SIGKILL)
				t.Errorf("process %d of %q still runs", pid, text)
				break
			}
		}
	}
	<-ended
}

// runs tells whether a process is there and has not ended: a child whose parent has gone may be
// left as a zombie.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
