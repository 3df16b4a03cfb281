package cuda_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

var update = flag.Bool("update", false, "write the golden traces")

// What a step gives the device, in order: what the first one launches one by one, and what is left
// of it when segments are graphs.
func TestStepsGiveTheDeviceWhatIsWrittenDown(t *testing.T) {
	m := classifier("resnet18", 4, []int{3, 16, 16}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Stem: nn.CIFAR, Width: 8})
	})
	f, gpu := cuda.NewFake(1)
	p := compile(t, m, cuda.Config{GPU: gpu, Bucket: 256 << 10})
	f.Trace = new([]string)
	var steps []string
	for range 5 {
		*f.Trace = nil
		p.step(t)
		var b strings.Builder
		for _, line := range *f.Trace {
			fmt.Fprintln(&b, line)
		}
		steps = append(steps, b.String())
	}
	for i := 3; i < len(steps); i++ {
		if steps[i] != steps[2] {
			t.Errorf("step %d gives the device something else than step 2", i)
		}
	}
	got := fmt.Sprintf("first step\n\n%s\nlater steps\n\n%s", steps[0], steps[2])
	file := filepath.Join("testdata", "resnet18.trace")
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Errorf("%s, line %d: got %q, want %q; go test -run %s -update writes it anew", file, i+1, g[i], w[i], t.Name())
				return
			}
		}
		t.Errorf("%s: got %d lines, want %d", file, len(g), len(w))
	}
	for _, line := range strings.Split(steps[2], "\n") {
		if !slices.ContainsFunc([]string{"up: ", "down: ", "compute: graph", "compute: wait", "compute: record", "wait for event"}, func(p string) bool { return strings.HasPrefix(line, p) }) && line != "" {
			t.Errorf("a later step does %q, want graphs, copies and events only", line)
		}
	}
}

// What the first layers wait for, and what they give last, is little: nothing is computed while it
// travels.
func TestFirstLayersTravelInSmallPortions(t *testing.T) {
	const bucket = 256 << 10
	m := classifier("resnet18", 4, []int{3, 16, 16}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Stem: nn.CIFAR, Width: 8})
	})
	f, gpu := cuda.NewFake(1)
	p := compile(t, m, cuda.Config{GPU: gpu, Bucket: bucket})
	f.Trace = new([]string)
	for range 3 {
		*f.Trace = nil
		p.step(t)
	}
	first, last, graphs := 0, 0, 0 // bytes
	for _, line := range *f.Trace {
		n := 0
		switch {
		case strings.HasPrefix(line, "compute: graph"):
			graphs++
			last = 0
		case strings.HasPrefix(line, "up: up ") && graphs == 0:
			fmt.Sscanf(line, "up: up %d bytes", &n)
			first += n
		case strings.HasPrefix(line, "down: down "):
			fmt.Sscanf(line, "down: down %d bytes", &n)
			last += n
		}
	}

	// These are the numbers of the step, images, labels and running statistics.
	first -= 16 + 4*4*3*16*16 + 4*4 + 4800
	if most := bucket / 8 * 5 / 4; first <= 0 || first > most || last <= 0 || last > most {
		t.Errorf("the first segment waits for %d bytes of parameters, the last one gives %d bytes of gradients; want 1 to %d", first, last, most)
	}
}
