package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// The table has the medians of the turns, for one step, against the first way's.
func TestTableHasMediansOfSteps(t *testing.T) {
	s := &settings{Workers: 2, Hosts: 1, Steps: 4, Count: 3, Batch: 8, Ways: []kvstore.Compression{{}, {Type: "topk", Ratio: 0.01, Pull: "bf16"}}}
	turns := []turn{
		{0, 8 * time.Second, 400e6, 800e6}, {1, 4 * time.Second, 4e6, 200e6}, {0, 4 * time.Second, 404e6, 804e6},
		{1, 1 * time.Second, 8e6, 204e6}, {0, 16 * time.Second, 396e6, 796e6}, {1, 2 * time.Second, 12e6, 196e6},
	}
	var out bytes.Buffer
	if err := writeTable(&out, "1gbit", "auto", s, turns); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1gbit each way, 2 workers on 1 hosts, sums within hosts auto, 3 turns of 4 steps, batch 8",
		"| none | 100.00 | 200.00 | 2s | 1.00 |",
		"| topk ratio 0.01, back bf16 | 2.00 | 50.00 | 500ms | 0.25 |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant a line %q", out.String(), want)
		}
	}
}

// A link is taken away whole, also when it could not be made.
func TestLinksAreRemoved(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this user is not root and may make no network namespaces")
	}
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: iproute2 is not installed", err)
		}
	}
	spaces := func() string {
		out, err := exec.Command("ip", "netns", "list").Output()
		if err != nil {
			t.Skipf("ip netns list: %v", err)
		}
		return string(out)
	}
	for _, rate := range []string{"10mbit", "no rate"} {
		l, err := newLink(t.Context(), rate, 2)
		if rate == "10mbit" {
			if err != nil {
				t.Skipf("this machine lets nobody make a link: %v", err)
			}
			if !strings.Contains(spaces(), l.workers[0]) || !strings.Contains(spaces(), l.workers[1]) {
				t.Errorf("namespaces %s are not there", l.workers)
			}
			if err := l.remove(); err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "tbf rate no rate") {
			t.Errorf("rate %q: got error %v, want one with tc's words", rate, err)
		}
		if left := spaces(); strings.Contains(left, l.servers) || strings.Contains(left, l.workers[0]) {
			t.Errorf("rate %q: left behind: %s", rate, left)
		}
	}
}
