package transport

import (
	"runtime"
	"testing"
)

func TestConnectionsWithinAHostAreFewOnFewCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, tc := range []struct {
		addr  string
		cores int
		want  int
	}{
		{"127.0.0.1:9000", 2, 1},
		{"[::1]:9000", 2, 1},
		{"127.0.0.1:9000", fewCores, 1},
		{"127.0.0.1:9000", fewCores + 1, 4},
		{"10.0.0.7:9000", 2, 4},
		{"server-0.example:9000", 2, 4},
		{"no port", 2, 4},
	} {
		runtime.GOMAXPROCS(tc.cores)
		c := NewClient(tc.addr, Config{})
		if got := len(c.slots); got != tc.want {
			t.Errorf("%s on %d cores: got %d connections, want %d", tc.addr, tc.cores, got, tc.want)
		}
		c.Close()
	}
	runtime.GOMAXPROCS(2)
	c := NewClient("127.0.0.1:9000", Config{Identity: new(Identity)})
	if got := len(c.slots); got != 4 {
		t.Errorf("under TLS: got %d connections, want 4: they seal at the same time", got)
	}
	c.Close()
	c = NewClient("127.0.0.1:9000", Config{Connections: 3})
	if got := len(c.slots); got != 3 {
		t.Errorf("got %d connections, want the 3 asked for", got)
	}
	c.Close()
}
