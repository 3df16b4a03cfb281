package scheduler

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A key that no file can hold is refused before any server has it, also of a worker that does not
// look.
func TestKeysThatCannotBeSavedAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"": "empty name", "__metadata__": "safetensors files keep for themselves", "a\xff": "not UTF-8", strings.Repeat("x", wire.MaxKeyName+1): "1025 bytes",
	} {
		p := newPlanner(1)
		d := &wire.Declare{Name: name, Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 1}
		nack, refused := p.declare(d, "worker 0", 1).(*wire.Nack)
		if !refused || nack.Code != wire.CodeMalformed || !strings.Contains(nack.Text, text) || len(p.keys) != 0 {
			t.Errorf("%.20q: got %+v and %d keys, want a refusal with %q", name, nack, len(p.keys), text)
		}
	}
}
