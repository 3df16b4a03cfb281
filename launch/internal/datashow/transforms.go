package datashow

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/data/transform"
)

// A kind is a transform by its name on the command line.
type kind struct {
	name string
	// numbers says what the numbers behind the name are, for messages.
	numbers string
	// want is how many numbers there are, and least and most bound them.
	want        int
	least, most float64
	whole       bool
	make        func(n []float64) transform.Transform
}

var kinds = []kind{
	{"resize", "SIZE", 1, 1, 1 << 14, true, func(n []float64) transform.Transform { return transform.Resize(int(n[0])) }},
	{"center-crop", "SIZE", 1, 1, 1 << 14, true, func(n []float64) transform.Transform { return transform.CenterCrop(int(n[0])) }},
	{"random-resized-crop", "SIZE", 1, 1, 1 << 14, true, func(n []float64) transform.Transform { return transform.RandomResizedCrop(int(n[0])) }},
	{"random-crop", "SIZE:PADDING", 2, 0, 1 << 14, true, func(n []float64) transform.Transform { return transform.RandomCrop(max(1, int(n[0])), int(n[1])) }},
	{"flip", "", 0, 0, 0, false, func([]float64) transform.Transform { return transform.Flip() }},
	{"grayscale", "", 0, 0, 0, false, func([]float64) transform.Transform { return transform.Grayscale() }},
	{"color-jitter", "BRIGHTNESS:CONTRAST:SATURATION:HUE", 4, 0, 0.5, false, func(n []float64) transform.Transform {
		return transform.ColorJitter(n[0], n[1], n[2], n[3])
	}},
	{"rand-augment", "OPERATIONS:MAGNITUDE", 2, 1, 30, true, func(n []float64) transform.Transform { return transform.RandAugment(int(n[0]), int(n[1])) }},
	{"trivial-augment", "", 0, 0, 0, false, func([]float64) transform.Transform { return transform.TrivialAugment() }},
	{"random-erasing", "PROBABILITY", 1, 0, 1, false, func(n []float64) transform.Transform { return transform.RandomErasing(n[0]) }},
}

// form is how a transform is written.
func (k *kind) form() string {
	if k.numbers == "" {
		return k.name
	}
	return k.name + ":" + k.numbers
}

// Forms are how transforms are written on a command line.
func Forms() string {
	var forms []string
	for _, k := range kinds {
		forms = append(forms, k.form())
	}
	return strings.Join(forms, ", ")
}

// ParseTransforms reads transforms with commas between them: "random-resized-crop:224,flip".
func ParseTransforms(text string) ([]transform.Transform, error) {
	var list []transform.Transform
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		name, rest, has := strings.Cut(strings.TrimSpace(word), ":")
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("got the transform %q, want some of %s", word, Forms())
		}
		k := &kinds[i]
		var numbers []float64
		if has {
			for text := range strings.SplitSeq(rest, ":") {
				n, err := strconv.ParseFloat(text, 64)
				if err != nil || !(n >= k.least && n <= k.most) || k.whole && n != math.Trunc(n) {
					return nil, fmt.Errorf("got %q in the transform %q, want %s with numbers from %g to %g", text, word, k.form(), k.least, k.most)
				}
				numbers = append(numbers, n)
			}
		}
		if len(numbers) != k.want {
			return nil, fmt.Errorf("got the transform %q, want %s", word, k.form())
		}
		list = append(list, k.make(numbers))
	}
	return list, nil
}
