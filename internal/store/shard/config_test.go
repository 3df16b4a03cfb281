package shard

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

func TestConfigIsRefusedByField(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		code   wire.Code
		text   string
	}{
		{"form", func(c *Config) { c.Form = 4 }, wire.CodeMalformed, "form: got 4"},
		{"rule", func(c *Config) { c.Rule = 0 }, wire.CodeMalformed, "rule: got 0"},
		{"average of rows", func(c *Config) { c.Form, c.RowLen, c.Rule = wire.FormRows, 2, wire.RuleAverage }, wire.CodeUnsupported, "rows"},
		{"broken rows", func(c *Config) { c.Form, c.RowLen = wire.FormRows, 3 }, wire.CodeSize, "got 4 values in rows of 3"},
		{"rows of nothing", func(c *Config) { c.Form, c.RowLen = wire.FormRows, 0 }, wire.CodeSize, "rows of 0"},
		{"dense with rows", func(c *Config) { c.RowLen = 2 }, wire.CodeMalformed, "row length: got 2"},
		{"beyond the key", func(c *Config) { c.Offset = 7 }, wire.CodeSize, "got 4 values from 7 on, want them within the key's 10"},
		{"beyond all numbers", func(c *Config) { c.Offset = 1<<64 - 1 }, wire.CodeSize, "within the key's 10"},
		{"larger than the key", func(c *Config) { c.Size = 3 }, wire.CodeSize, "within the key's 3"},
		{"too large", func(c *Config) { c.Offset, c.Length, c.Size = 0, MaxLength+1, MaxLength+1 }, wire.CodeSize, "want at most"},
		{"index", func(c *Config) { c.Index = 3 }, wire.CodeMalformed, "got shard 3 of 3"},
		{"no name", func(c *Config) { c.Name = "" }, wire.CodeMalformed, "empty name"},
		{"the header's name", func(c *Config) { c.Name = "__metadata__" }, wire.CodeMalformed, "__metadata__"},
		{"not UTF-8", func(c *Config) { c.Name = "a\xff" }, wire.CodeMalformed, "not UTF-8"},
		{"long name", func(c *Config) { c.Name = strings.Repeat("x", wire.MaxKeyName+1) }, wire.CodeMalformed, "name of 1025 bytes"},
	} {
		cfg := Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Offset: 2, Length: 4, Size: 10, Shards: 3, Index: 1}
		if err := cfg.Validate(); err != nil {
			t.Fatalf("a good config: got %v", err)
		}
		c.change(&cfg)
		if _, err := New(cfg, nil); codeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want code %d and %q in it", c.name, err, c.code, c.text)
		}
	}
	cfg := Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 4, Size: 4, Shards: 1}
	if _, err := New(cfg, make([]float32, 3)); codeOf(err) != wire.CodeSize {
		t.Errorf("3 values for 4: got %v, want code %d", err, wire.CodeSize)
	}
}

func TestMembersAreNamedOnce(t *testing.T) {
	s := dense(t, 1, 0)
	if err := s.SetMembers(2, []Member{{Node: 1}, {Node: 1, Rank: 1}}); codeOf(err) != wire.CodeMalformed {
		t.Errorf("a member named twice: got %v, want code %d", err, wire.CodeMalformed)
	}
	mustPush(t, s, contribution(s, 0, 0, 1), Held) // and nothing has changed
}
