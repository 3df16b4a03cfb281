package datacheck

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data"
)

// sortedLabels are n labels of classes that are equally large, sorted.
func sortedLabels(n, classes int) (labels []int) {
	for i := range n {
		labels = append(labels, i*classes/n)
	}
	return labels
}

func shuffled(labels []int, seed uint64) []int {
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	return labels
}

// record writes images of these labels as a .rec file, and opens it.
func record(t *testing.T, labels []int) *data.Images {
	t.Helper()
	image := picture(t, 4, 3)
	var rec, idx bytes.Buffer
	w := data.NewRecordWriter(&rec, &idx, data.RecordConfig{})
	for i, label := range labels {
		if err := w.Write(uint64(i), data.Encoded{Image: image, Labels: []float32{float32(label)}}); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "train.rec")
	for name, content := range map[string][]byte{name: rec.Bytes(), strings.TrimSuffix(name, "rec") + "idx": idx.Bytes()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := data.OpenImages(t.Context(), name, data.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func orderLine(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(b.String(), "  order ")
	return strings.TrimSpace(line)
}

func TestARecordFileThatIsSortedByClassIsNamed(t *testing.T) {
	const n = 2000
	block := int64(10 * len(picture(t, 4, 3))) // 160 images a window
	for name, c := range map[string]struct {
		labels []int
		bytes  int64
		want   string
	}{
		"sorted": {sortedLabels(n, 10), block, "sorted by class: of images 0 to 159, 160 are of label 0; an order by blocks shows workers few classes at a time, " +
			"so mix them: launch data pack --shuffle"},
		"shuffled":                         {shuffled(sortedLabels(n, 10), 1), block, ""},
		"two classes, shuffled":            {shuffled(sortedLabels(n, 2), 1), block, ""},
		"sorted, one window has all of it": {sortedLabels(n, 10), 20 * block, ""},
		"sorted, blocks are not asked for": {sortedLabels(n, 10), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Check(t.Context(), record(t, c.labels), Config{Goroutines: 2, HeadersOnly: true, BlockBytes: c.bytes})
			if err != nil {
				t.Fatal(err)
			}
			if got := orderLine(t, r); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The blocks of the data are used where it has some, and a class that has most of all images has
// most of each window.
func TestBlocksOfTheDataAreWhatIsMixed(t *testing.T) {
	image := picture(t, 4, 3)
	inBlocks := func(labels []int, perBlock int) set {
		s := set{classes: []string{"ant", "bee", "cat", "dog"}}
		for i, label := range labels {
			if i%perBlock == 0 {
				s.blocks = append(s.blocks, i)
			}
			s.examples = append(s.examples, data.Encoded{Image: image, Labels: []float32{float32(label)}})
		}
		return s
	}
	mostly := sortedLabels(3000, 3)
	for i := range mostly {
		if i%5 != 0 {
			mostly[i] = 3
		}
	}
	for name, c := range map[string]struct {
		set  set
		want string
	}{
		"sorted":                   {inBlocks(sortedLabels(3000, 4), 10), "of images 0 to 159, 160 are of ant"},
		"shuffled":                 {inBlocks(shuffled(sortedLabels(3000, 4), 1), 10), ""},
		"shuffled, tiny blocks":    {inBlocks(shuffled(sortedLabels(3000, 4), 1), 1), ""},
		"16 blocks have all":       {inBlocks(sortedLabels(3000, 4), 200), ""},
		"most are of one class":    {inBlocks(mostly, 10), ""},
		"sorted behind the middle": {inBlocks(append(shuffled(sortedLabels(2000, 4), 1), sortedLabels(2000, 4)...), 10), "of images 2,000 to 2,159, 160 are of ant"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Check(t.Context(), c.set, Config{Goroutines: 2, HeadersOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := orderLine(t, r); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatIsDamagedOrHasNoClassIsNoRun(t *testing.T) {
	s := set{examples: make([]data.Encoded, 500), errs: map[int]error{}}
	for i := range s.examples {
		s.blocks = append(s.blocks, i)
		s.errs[i] = &data.BadExampleError{Example: i, Err: os.ErrInvalid}
	}
	r, err := Check(t.Context(), s, Config{Goroutines: 1})
	if err != nil || r.Damaged != 500 || r.Sorted != nil {
		t.Errorf("got %+v and error %v, want 500 damaged and no run", r, err)
	}
}
