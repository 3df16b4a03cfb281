package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// frame matches the box that ssh draws around a warning.
var frame = regexp.MustCompile(`@{5,}|@ +WARNING`)

// explain makes an error of what ssh printed, with a hint on what to do.
func (m *Method) explain(h hosts.Host, said string, err error) error {
	if said == "" {
		return fmt.Errorf("launch: host %s: %w", h, err)
	}
	if hint := hint(m, h, said); hint != "" {
		said = strings.Join(strings.Fields(frame.ReplaceAllString(said, " ")), " ")
		return fmt.Errorf("launch: host %s: %s; %s", h, said, hint)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, io.EOF) {
		return fmt.Errorf("launch: host %s: %s (%w)", h, said, err)
	}
	return fmt.Errorf("launch: host %s: %s: %w", h, said, err)
}

// A tail keeps the last lines of ssh's standard error until the connection is established; from
// then on it logs each line.
type tail struct {
	mu   sync.Mutex
	kept []byte
	log  func(string)
	on   bool
}

const maxTail = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if len(t.kept) > maxTail {
		t.kept = t.kept[len(t.kept)-maxTail:]
	}
	if t.on {
		t.flush()
	}
	return len(p), nil
}

// live marks the connection as established: the lines so far (a banner, say) are no error, and
// those that follow are logged.
func (t *tail) live() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept, t.on = nil, t.log != nil
}

func (t *tail) flush() {
	for {
		line, rest, ok := bytes.Cut(t.kept, []byte("\n"))
		if !ok {
			return
		}
		t.kept = rest
		if s := strings.TrimSpace(string(line)); s != "" {
			t.log(s)
		}
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.kept)), " ")
}
