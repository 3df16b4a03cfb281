package datacheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
)

// A set is a source in memory.
type set struct {
	classes  []string
	examples []data.Encoded
	errs     map[int]error
	blocks   []int
}

func (s set) Len() int          { return len(s.examples) }
func (s set) Classes() []string { return s.classes }
func (s set) Blocks() []int     { return s.blocks }

func (s set) ReadEncoded(_ context.Context, i int) (data.Encoded, error) {
	return s.examples[i], s.errs[i]
}

func (s set) Decode(encoded []byte) (*transform.Image, error) {
	m, err := png.Decode(bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	return &transform.Image{Width: m.Bounds().Dx(), Height: m.Bounds().Dy(), Channels: 3}, nil
}

func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAllIsCountedAndDamageNamed(t *testing.T) {
	small, large := picture(t, 4, 3), picture(t, 100, 50)
	cut := large[:len(large)-20]
	s := set{
		classes: []string{"ant", "bee", "cat"},
		examples: []data.Encoded{
			{Image: small, Labels: []float32{0}, Name: "0"},
			{Image: large, Labels: []float32{0}, Name: "1"},
			{Image: cut, Labels: []float32{0}, Name: "2"},
			{Image: small, Labels: []float32{2}, Name: "3"},
			{Image: small, Labels: []float32{3}, Name: "4"},
			{Image: small, Labels: []float32{0.5}, Name: "5"},
			{Image: small, Name: "6"},
			{Image: small, Labels: []float32{1, 2}, Name: "7"},
			{Image: []byte("no image"), Labels: []float32{1}, Name: "8"},
			{Image: small, Labels: []float32{float32(math.NaN())}, Name: "9"},
			{},
		},
		errs: map[int]error{10: &data.BadExampleError{Example: 10, Name: "10", Err: errors.New("no record")}},
	}
	var damaged []string
	progress := 0
	r, err := Check(t.Context(), s, Config{Goroutines: 3, Damaged: func(e *data.BadExampleError) { damaged = append(damaged, e.Name) }, Progress: func(done int) { progress = done }})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"2", "4", "8", "9", "10"}; !slices.Equal(damaged, want) {
		t.Errorf("damaged are %q, want %q", damaged, want)
	}
	if progress != 11 {
		t.Errorf("the progress ends at %d, want 11", progress)
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`  images    11, %d B, 5 damaged
  formats   png 6
  sizes     4×3 to 100×50, mean 843 pixels and %d B
  classes   2, the fewest images 1 in cat, the most 2 in ant
            1 without an image: bee
  labels    none in 1 image
  labels    2 in 1 image
  labels    one that is no class, such as a number with a fraction, in 1 image
`, 5*len(small)+len(large), (5*len(small)+len(large))/6)
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	b.Reset()
	if err := r.WriteClasses(&b); err != nil {
		t.Fatal(err)
	}
	want = fmt.Sprintf(`   label  class     images    mean size
       0  ant            2 %10d B
       1  bee            0            -
       2  cat            1 %10d B
`, (len(small)+len(large))/2, len(small))
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestHeadersAloneShowNoDamageBehindThem(t *testing.T) {
	large := picture(t, 100, 50)
	s := set{examples: []data.Encoded{{Image: large[:len(large)-20], Labels: []float32{7}}}}
	r, err := Check(t.Context(), s, Config{HeadersOnly: true})
	if err != nil || r.Damaged != 0 || len(r.Classes) != 8 || r.Classes[7].Images != 1 {
		t.Errorf("got %+v and error %v", r, err)
	}
}

func TestAStorageThatFailsIsNoDamage(t *testing.T) {
	broken := errors.New("broken")
	s := set{examples: make([]data.Encoded, 3), errs: map[int]error{0: broken}}
	if _, err := Check(t.Context(), s, Config{}); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}

func TestNumbersAndSizesAreForPeople(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1281167: "1,281,167"} {
		if got := count(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{999: "999 B", 110_000: "110.0 KB", 5_500_000: "5.5 MB", 138_200_000_000: "138.2 GB"} {
		if got := size(n); got != want {
			t.Errorf("%d bytes are written %s, want %s", n, got, want)
		}
	}
}
