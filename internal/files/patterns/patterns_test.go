package patterns_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/files/patterns"
)

func TestTheLastPatternThatMatchesDecides(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		want     string // of the names below
		unused   []string
	}{
		{nil, "", nil},
		{[]string{"fc.*"}, "fc.weight fc.bias", nil},
		{[]string{"*", "!fc.*"}, "conv1.weight layer1.0.bn1.bias", nil},
		{[]string{"!fc.*", "*.bias"}, "layer1.0.bn1.bias fc.bias", nil},
		{[]string{"conv1.weight", "layer2.*"}, "conv1.weight", []string{"layer2.*"}},
		{[]string{"layer[12].*", "fc.b???"}, "layer1.0.bn1.bias fc.bias", nil},
	} {
		l, err := patterns.New("Freeze", c.patterns)
		if err != nil {
			t.Fatal(err)
		}
		var taken []string
		for _, name := range []string{"conv1.weight", "layer1.0.bn1.bias", "fc.weight", "fc.bias"} {
			if l.Match(name) {
				taken = append(taken, name)
			}
		}
		if got := strings.Join(taken, " "); got != c.want || !slices.Equal(l.Unused(), c.unused) {
			t.Errorf("%q: got %q and unused %q, want %q and %q", c.patterns, got, l.Unused(), c.want, c.unused)
		}
	}
	for _, wrong := range []string{"", "!", "a[", "!a["} {
		if _, err := patterns.New("Freeze", []string{"ok", wrong}); err == nil || !strings.Contains(err.Error(), "Freeze[1]") {
			t.Errorf("%q: got error %v, want one that names Freeze[1]", wrong, err)
		}
	}
}

func TestARenamingPutsInWhatItsStarsMatched(t *testing.T) {
	for _, c := range []struct{ rule, name, want string }{
		{"backbone.*=*", "backbone.conv1.weight", "conv1.weight"},
		{"module.*=*", "conv1.weight", ""},
		{"resnet.*.layers.*=*.#.*", "resnet.a.layers.b", "a.#.b"},
		{"*=model.*", "fc.bias", "model.fc.bias"},
		{"head.bias=fc.bias", "head.bias", "fc.bias"},
		{"a.*.*=b.*", "a.x.y", "b.x"},
		{"*.gamma=*.weight", "bn1.gamma", "bn1.weight"},
		{"a+.*=$1.*", "a+.x", "$1.x"},
	} {
		r, err := patterns.NewRenaming(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := r.Rename(c.name); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s of %s: got %q, %v, want %q", c.rule, c.name, got, ok, c.want)
		}
	}
	for _, wrong := range []string{"", "a", "=a", "a=", "a.*=*.*", "a?=b", "a[b]=b"} {
		if _, err := patterns.NewRenaming(wrong); err == nil {
			t.Errorf("%q: got no error", wrong)
		}
	}
}
