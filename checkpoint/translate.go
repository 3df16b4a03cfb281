package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/checkpoint/models"
	"github.com/paragon-train/paragon/internal/files/patterns"
	"github.com/paragon-train/paragon/internal/observe/shown"
)

// A translation is what a file's tensors are as one layout has them.
type translation struct {
	layout  *models.Layout
	sources map[string]*models.Source
	// unknown are tensors that the layout does not have.
	unknown []string
	// misfits is how many of the program's arrays have another shape.
	misfits int
}

// translate gives the arrays of another framework's file the names and layouts of the program's
// model, if it is a known one. Which layout the file has follows from its names, and where two have
// the same names, from the shapes of matrices that are not square: of all layouts the one that fits
// best counts, for the whole file. A tensor that the model does not have is an error, as the model
// would compute something else without it.
func (m *model) translate(ctx context.Context, into []Array, skip *patterns.List, cfg *ImportConfig) error {
	if m.ours {
		return nil
	}
	shapes := map[string][]int{}
	for _, a := range into {
		shapes[a.Name] = a.Shape
	}
	known := models.Of(namesOf(into))
	if known == nil {
		m.unwrap(shapes)
		return nil
	}
	best, err := m.bestLayout(known, shapes)
	if err != nil || len(best.sources) == 0 {
		return err
	}
	surplus, err := m.surplus(best, shapes)
	if err != nil {
		return err
	}
	unknown := slices.DeleteFunc(append(best.unknown, surplus...), skip.Match)
	if len(unknown) > 0 {
		return fmt.Errorf("the file has %s, which %s does not have (format %s): without it the model would compute something else. If the file has the same under other names, rename them (ImportConfig.Rename); if the model does not need them, skip them (ImportConfig.Skip)",
			some(unknown), known.Name, best.layout.Name)
	}
	head := 0
	if best.layout.NeedsHead() {
		if head, err = m.headSize(ctx, cfg); err != nil {
			return err
		}
	}
	arrays := map[string]*modelArray{}
	for name, a := range m.arrays {
		// What the program has besides the model, such as another head.
		if shapes[name] != nil && best.sources[name] == nil {
			arrays[name] = a
		}
	}
	for name, source := range best.sources {
		if i := slices.Index(source.Names, ""); i >= 0 {
			return fmt.Errorf("%s: %w: the file has %s without it", shown.Name(source.Wanted[i]), ErrNoTensor, shown.Name(source.Names[(i+1)%len(source.Names)]))
		}
		if skip.Match(source.Same) {
			source.Same = ""
		}
		a, err := m.translated(name, source, head)
		if err != nil {
			return err
		}
		arrays[name] = a
	}
	m.arrays = arrays
	return nil
}

// surplus takes parameters out that the program does not have, and names them: those of more blocks,
// for example. A bias that is zero is none: GPT-2's in a program without biases.
func (m *model) surplus(t *translation, shapes map[string][]int) (names []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(t.sources)) {
		if shapes[name] != nil {
			continue
		}
		source := t.sources[name]
		delete(t.sources, name)
		zero := false
		if a := m.arrays[source.Names[0]]; strings.HasSuffix(name, biasEnding) && len(source.Names) == 1 {
			if zero, err = isZero(a); err != nil {
				return nil, err
			}
		}
		if !zero {
			names = append(names, name)
		}
	}
	return names, nil
}

// isZero reads an array and looks whether it is zero.
func isZero(a *modelArray) (bool, error) {
	n, err := elements(a.shape)
	if err != nil {
		return false, err
	}
	values := make([]float32, n)
	if err := a.read(values); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(values, func(x float32) bool { return x != 0 }), nil
}

// unwrap takes off what PyTorch's wrappers put in front of names, where the program has the rest.
func (m *model) unwrap(shapes map[string][]int) {
	for _, name := range m.names() {
		own := models.Unwrapped(name)
		if shapes[name] == nil && shapes[own] != nil && m.arrays[own] == nil {
			m.arrays[own] = m.arrays[name]
			delete(m.arrays, name)
		}
	}
}

// bestLayout finds the layout of the file: that with the fewest tensors which it does not have, and
// of those with as few the one with the fewest shapes that do not fit.
func (m *model) bestLayout(known *models.Model, shapes map[string][]int) (best *translation, err error) {
	for _, layout := range known.Layouts() {
		t := &translation{layout: layout}
		var failed error
		t.sources, t.unknown, failed = layout.Sources(m.names(), func(name string) bool { _, ok := shapes[name]; return ok })
		if failed != nil {
			err = failed
			continue
		}
		for name, source := range t.sources {
			if shape, err := m.shapeOf(source); err != nil || shapes[name] != nil && !slices.Equal(shape, shapes[name]) {
				t.misfits++
			}
		}
		if best == nil || len(t.unknown) < len(best.unknown) || len(t.unknown) == len(best.unknown) && t.misfits < best.misfits {
			best = t
		}
	}
	if best == nil {
		return nil, err
	}
	// The program may have more than the model.
	kept := best.unknown[:0:0]
	for _, name := range best.unknown {
		if shapes[name] == nil {
			kept = append(kept, name)
		}
	}
	best.unknown = kept
	return best, nil
}

// shapeOf is a parameter's shape, by those of its tensors in the file.
func (m *model) shapeOf(source *models.Source) ([]int, error) {
	var shape []int
	for i, name := range source.Names {
		a := m.arrays[name]
		if a == nil {
			return nil, fmt.Errorf("%s: %w", shown.Name(source.Wanted[i]), ErrNoTensor)
		}
		if i == 0 {
			shape = slices.Clone(a.shape)
			continue
		}
		if len(shape) == 0 || len(a.shape) != len(shape) || !slices.Equal(a.shape[1:], shape[1:]) {
			return nil, fmt.Errorf("%s has shape %v, and %s %v: their rows cannot follow each other", shown.Name(source.Names[0]), m.arrays[source.Names[0]].shape, shown.Name(name), a.shape)
		}
		shape[0] += a.shape[0]
	}
	return source.Form.Shape(shape)
}

// translated is a parameter whose numbers are read from the file's tensors.
func (m *model) translated(parameter string, source *models.Source, head int) (*modelArray, error) {
	shape, err := m.shapeOf(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown.Name(parameter), err)
	}
	parts := make([]*modelArray, len(source.Names))
	for i, name := range source.Names {
		parts[i] = m.arrays[name]
	}
	same := m.arrays[source.Same]
	return &modelArray{shape, func(dst []float32) error {
		if err := readRows(parts, source, dst, head); err != nil {
			return err
		}
		if same == nil {
			return nil
		}
		return m.compareTied(parameter, source, dst, same)
	}}, nil
}

// readRows reads tensors, one after the other, and arranges them.
func readRows(parts []*modelArray, source *models.Source, dst []float32, head int) error {
	src := dst
	if source.Form != models.AsIs {
		src = make([]float32, len(dst))
	}
	at := int64(0)
	for i, part := range parts {
		n, err := elements(part.shape)
		if err == nil && n > int64(len(src))-at {
			err = fmt.Errorf("got %d values, want at most %d", n, int64(len(src))-at)
		}
		if err == nil {
			err = part.read(src[at : at+n])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", shown.Name(source.Names[i]), err)
		}
		at += n
	}
	if source.Form == models.AsIs {
		return nil
	}
	if err := source.Form.Read(dst, src, parts[0].shape, head); err != nil {
		return fmt.Errorf("%s: %w", shown.Name(source.Names[0]), err)
	}
	return nil
}

// compareTied refuses a head that is not the table of embeddings, in a model that has one for both.
func (m *model) compareTied(table string, source *models.Source, values []float32, head *modelArray) error {
	n, err := elements(head.shape)
	if err != nil {
		return err
	}
	differ := n != int64(len(values))
	if !differ {
		other := make([]float32, n)
		if err := head.read(other); err != nil {
			return err
		}
		differ = !slices.Equal(other, values)
	}
	if differ {
		return fmt.Errorf("%s and %s differ in the file, and the model has one table for both, %s: build a model with a head of its own, if there is one (LlamaConfig.Tied), or skip the head (ImportConfig.Skip)",
			shown.Name(source.Same), shown.Name(source.Names[0]), shown.Name(table))
	}
	return nil
}

// paramsFile describes the models in Meta's files.
const paramsFile = "params.json"

// headSize is how many rows a head of the file has.
func (m *model) headSize(ctx context.Context, cfg *ImportConfig) (int, error) {
	if cfg.HeadSize > 0 {
		return cfg.HeadSize, nil
	}
	text, err := m.beside(ctx, paramsFile)
	if err != nil {
		return 0, fmt.Errorf("the file has Meta's layout, whose rows are in the order of heads, so that the size of a head has to be known: put %s beside it, or give ImportConfig.HeadSize: %w", paramsFile, err)
	}
	size, err := models.ParseParams(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", paramsFile, err)
	}
	return size, nil
}

// beside reads a small file that lies where the model's does.
func (m *model) beside(ctx context.Context, name string) (text []byte, err error) {
	at := strings.TrimRightFunc(m.from, isSeparator)
	if place, file, err := SplitURI(at); err == nil && isFile(m.from, file) {
		at = place
	}
	place, err := OpenPlace(ctx, at)
	if err != nil {
		return nil, err
	}
	text, err = readText(ctx, place, name, manifestLimit)
	return text, errors.Join(err, place.Close())
}
