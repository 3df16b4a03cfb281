package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPicturesAreFresh(t *testing.T) {
	pictures, err := draw(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"gradient.svg", "joining.svg", "packages.svg"}; !slices.Equal(slices.Sorted(maps.Keys(pictures)), want) {
		t.Errorf("got pictures %v, want %v", slices.Sorted(maps.Keys(pictures)), want)
	}
	for name, want := range pictures {
		if got, err := os.ReadFile(filepath.Join("..", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/explanation/%s is stale (%v): run go generate ./docs/...", name, err)
		}
	}
}

func TestArrowsThatFollowAreLeftOut(t *testing.T) {
	imported := map[string][]string{
		"worker": {"kvstore", "optim", "internal/store/wire"}, "kvstore": {"internal/store/wire", "kvstore/a"}, "kvstore/a": {"optim"},
		"optim": nil, "internal/store/wire": nil, "internal/store/wire/wiretest": {"worker"}, "internal/testing/jobtest": {"worker"}, "bench/kv": {"worker"},
	}
	const programs, roles, models = "examples, bench", "worker, server, schedulernode", "nn, optim"
	want := graph{programs: {roles}, roles: {"kvstore"}, "kvstore": {"internal/store", models}, models: nil, "internal/store": nil}
	got := reduce(fold(imported))
	for n, list := range got {
		if len(list) == 0 {
			got[n] = nil
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arrows (-want +got):\n%s", diff)
	}
	if got, want := floors(got), map[string]int{programs: 0, roles: 1, "kvstore": 2, "internal/store": 4, models: 5}; !maps.Equal(got, want) {
		t.Errorf("got floors %v, want %v", got, want)
	}
	packages := map[string][]string{"kvstore": nil, "kvstore/internal/a": nil, "kvstore/internal/a/deep": nil, "bench/kv": nil, "kvstore/atest": nil}
	if diff := cmp.Diff(map[string][]string{"kvstore": {"a"}, programs: {"kv"}}, within(packages)); diff != "" {
		t.Errorf("packages within others (-want +got):\n%s", diff)
	}
}

// Whatever the graph is, arrows point down from one layer to the next, and boxes of a layer do not
// overlap.
func TestLayersAreBelowEachOther(t *testing.T) {
	g := graph{"a": {"b", "e"}, "b": {"c", "d"}, "c": {"e"}, "d": {"e"}, "e": nil, "f": {"d"}, "g": nil}
	layer := map[string]int{"a": 0, "b": 1, "c": 2, "d": 2, "e": 3, "f": 1, "g": 0}
	rows := arrange(g, layer, func(string) float64 { return 50 })
	arrows := 0
	for i, row := range rows {
		for j, p := range row {
			if j > 0 && p.x-p.width/2 < row[j-1].x+row[j-1].width/2+gap-1e-6 {
				t.Errorf("layer %d: %q at %.1f and %q at %.1f are too near to each other", i, row[j-1].node, row[j-1].x, p.node, p.x)
			}
			for _, to := range p.below {
				arrows++
				if i+1 == len(rows) || !slices.Contains(rows[i+1], to) {
					t.Errorf("an arrow from %q in layer %d does not end in the next layer", p.node, i)
				}
			}
		}
	}

	// There are 7 arrows, of which that from a to e crosses two layers.
	if arrows != 9 {
		t.Errorf("got %d parts of arrows, want 9", arrows)
	}
}

func TestStepsAreReadFromThePage(t *testing.T) {
	const head = "Text.\n1. not a step of a picture\n\n![A title](name.svg)\n\n"
	got, err := readSequences(head + "1. **one → two three: asks.** Why.\n   More.\n2. **two three: thinks.**\n\n![Another](other.svg)\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].file != "name.svg" || got[0].title != "A title" || !slices.Equal(got[0].steps, []step{{"one", "two three", "asks"}, {"two three", "", "thinks"}}) {
		t.Errorf("got %+v, want one sequence of two steps", got)
	}
	for _, bad := range []string{"1. no step", "1. **one → two asks.**", "1. **one: " + strings.Repeat("x", maxText+1) + ".**"} {
		if _, err := readSequences(head + bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}
