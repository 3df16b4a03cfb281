package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/bench/costs"
)

// The stages of a short run are written so that bench/scale can read them.
func TestStagesWritesCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; run without -short")
	}
	set, err := readFlags([]string{"-stages", filepath.Join(t.TempDir(), "costs.json"), "-transport", "auto", "-count", "1", "-scale", "0.001"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := measureStages(t.Context(), set, &out); err != nil {
		t.Fatal(err)
	}
	c, err := costs.Read(set.stages)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"none", "sgd", "sgd+momentum", "adagrad", "adam"} {
		if x, ok := c.Update[name]; !ok || name != "none" && (x.Byte <= 0 || x.Far < x.Byte) {
			t.Errorf("update %s costs %+v s, want more than 0 a byte and no less beyond the cache", name, x)
		}
	}
	if c.Sum.Byte <= 0 || c.Copy.Byte <= 0 || len(c.Encode) != 5 || len(c.Decode) != 5 || len(c.Transports) != 1 {
		t.Errorf("got %+v, want a sum, a copy, four codes each way and one transport", c)
	}
	if !strings.Contains(out.String(), "BenchmarkStage/stage=wire/side=worker/way=push/transport=auto 1 ") {
		t.Errorf("no line of the wire in\n%s", &out)
	}
}
