package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/optim"
)

// The table of a plan names every server, its bytes add up, and the last line says how even it is.
func TestCtlPlanTellsWhatEachServerHolds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model.safetensors")
	err := checkpoint.Save(file, nil, []checkpoint.Tensor{
		checkpoint.Float32s("big", []int{300, 300}, make([]float32, 90_000)), // cut: one shard for each server
		checkpoint.Float32s("bias", []int{200}, make([]float32, 200)),
		checkpoint.Float32s("scale", []int{100}, make([]float32, 100)),
	})
	if err != nil {
		t.Fatal(err)
	}
	code, out, stderr := runCtl("plan", "--servers", "2", "--keys", file)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{`(?m)^big +360000 +2 +all$`, `(?m)^bias +800 +1 +[01]$`, `(?m)^3 keys, 361200 bytes, on 2 servers; max/mean 1\.00\d$`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("got no line like %s in\n%s", want, out)
		}
	}
	sum := 0
	for server := range 2 {
		m := regexp.MustCompile(fmt.Sprintf(`(?m)^%d +\d+ +\d+ +(\d+) +\d\.\d+$`, server)).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no row of server %d in\n%s", server, out)
		}
		var n int
		fmt.Sscan(m[1], &n)
		sum += n
	}
	if sum != 361200 {
		t.Errorf("the servers' bytes add up to %d, want 361200\n%s", sum, out)
	}
}

// A file of the store lists keys, not the optimizer's state, and keeps keys whole that the
// optimizer needs whole.
func TestCtlPlanReadsTheStoresFiles(t *testing.T) {
	for optimizer, shards := range map[string]string{"adam": "4", "lars": "1"} {
		kv, err := kvstore.Create(t.Context(), "local")
		if err != nil {
			t.Fatal(err)
		}
		if err := kv.SetOptimizer(t.Context(), optim.Config{Name: optimizer, LearningRate: 0.1}); err != nil {
			t.Fatal(err)
		}
		if err := kv.Init(t.Context(), "w", make([]float32, 70_000)); err != nil {
			t.Fatal(err)
		}
		if err := kv.InitRows(t.Context(), "table", 10, 4, nil); optimizer == "adam" && err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "store.safetensors")
		if err := kv.Save(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		kv.Close()
		code, out, stderr := runCtl("plan", "-s", "4", "--keys", file)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", optimizer, code, stderr)
		}
		if !regexp.MustCompile(`(?m)^w +280000 +`+shards+` `).MatchString(out) || strings.Contains(out, "w/") {
			t.Errorf("%s: want key w in %s shards and no state:\n%s", optimizer, shards, out)
		}
	}
}

func TestCtlSaysWhatIsWrong(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "x")
	for _, tc := range []struct {
		args, want string
		code       int
	}{
		{"plan", "want one: launch ctl plan --servers 4 model.safetensors", command.ExitUsage},
		{"plan --servers 0 " + empty, "--servers is 0", command.ExitUsage},
		{"plan --server 1 x", "-server", command.ExitUsage},
		{"top", `there is no "top"`, command.ExitUsage},
		{"plan " + empty, "no such file", 1},
	} {
		code, _, stderr := runCtl(strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(stderr, tc.want) {
			t.Errorf("launch ctl %s: exit code %d and %q, want %d and %q", tc.args, code, stderr, tc.code, tc.want)
		}
	}
	if code, out, _ := runCtl("plan", "--help"); code != 0 || !strings.Contains(out, "launch ctl plan --servers 4") {
		t.Errorf("launch ctl plan --help: exit code %d, want an example:\n%s", code, out)
	}
}
