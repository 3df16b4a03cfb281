package job

import (
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// One variable of the environment has room for 128 KiB on Linux, whatever the hosts are called.
func TestPlacesOfTheLargestJobFitTheEnvironment(t *testing.T) {
	h := hosts.Host{Name: strings.Repeat("a-long-name.", 20) + "example.com"}
	cfg := Config{Command: []string{"x"}}
	for range 2500 {
		cfg.Workers, cfg.Servers = append(cfg.Workers, h), append(cfg.Servers, h)
	}
	if err := cfg.setDefaults(); err != nil {
		t.Fatal(err)
	}
	c := newCore(cfg.settings("j"), time.Now())
	text := c.procs.expected(c.runner.hostName)
	items := strings.Split(text, ",")
	if want := "server/0/" + h.Name; len(text) > 100<<10 || len(items) < 300 || items[0] != want || items[len(items)-1] != "server/"+strings.Split(items[len(items)-1], "/")[1]+"/"+h.Name {
		t.Errorf("%d places in %d bytes, from %q to %q; want whole ones in at most %d bytes", len(items), len(text), items[0], items[len(items)-1], 100<<10)
	}
}
