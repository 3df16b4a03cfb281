package shardserver

import (
	"log/slog"
	"testing"
)

func TestAServerHasALogger(t *testing.T) {
	if s := New(Config{}); s.cfg.Logger == nil {
		t.Error("the server has no logger")
	}
	own := slog.New(slog.DiscardHandler)
	if s := New(Config{Logger: own}); s.cfg.Logger != own {
		t.Error("the server does not have its logger")
	}
}
