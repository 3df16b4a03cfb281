package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// How packages kvstore and worker name what a model is made of.
const (
	// StoreKeys in the metadata of a store's file is its list of keys, as JSON.
	StoreKeys = "paragon.keys"
	// OwnParam opens the names of parameters in a worker's own file, where workers update them.
	OwnParam = "param/"
	// OwnAverage opens the names of moving averages of parameters in a worker's own file: all
	// have the same.
	OwnAverage = "ema/"
	// OwnRound is in a worker's own file where it takes local steps: the store's values are the
	// model then.
	OwnRound = "local/round"

	// internalPrefix begins the runtime's own keys, which are no part of a model.
	internalPrefix = "paragon/"
	// oldState began running statistics' keys in files without checksums.
	oldState  = "state/"
	ownDevice = "device"
)

// OwnState is the name of a running statistic of one device in a worker's own file.
func OwnState(device int, name string) string { return fmt.Sprintf("%s%d/%s", ownDevice, device, name) }

// A model is the parameters and statistics of a checkpoint or a file, by PyTorch's names.
type model struct {
	// from is where it came from, for messages.
	from string
	// steps is how many were taken; 0: not known.
	steps uint64
	// flat says that shapes are not known: an older version wrote it.
	flat bool
	// summed says that it had checksums.
	summed bool
	// ours says that it is of a job of ours, with the program's own names.
	ours    bool
	arrays  map[string]*modelArray
	leftOut []string
	// averages says that the moving averages of the parameters are wanted in their place.
	averages bool
	close    []func() error
}

// A modelArray is a tensor of a model: its shape, and how its values are read.
type modelArray struct {
	shape []int
	read  func(dst []float32) error
}

func (m *model) Close() (err error) {
	for _, close := range slices.Backward(m.close) {
		err = errors.Join(err, close())
	}
	return err
}

// names are those of the arrays, sorted.
func (m *model) names() []string { return slices.Sorted(maps.Keys(m.arrays)) }

// openModel opens what a URI names: a safetensors file, an index of several, a checkpoint's folder
// (step-00001000), the place of a job's checkpoints, of which it takes the newest, or a folder as
// Hugging Face's libraries write it. All of it is verified.
func openModel(ctx context.Context, from string) (*model, error) { return openAs(ctx, from, false) }

// isSeparator tells what stands between folders: a slash, as in URIs, and what the system has for
// it.
func isSeparator(r rune) bool { return r == '/' || r == filepath.Separator }

// openAs is openModel; averages: with the moving averages of the parameters in their place.
func openAs(ctx context.Context, from string, averages bool) (_ *model, err error) {
	m := &model{from: from, averages: averages, arrays: map[string]*modelArray{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	at, name, err := SplitURI(strings.TrimRightFunc(from, isSeparator))
	if err == nil && isFile(from, name) {
		if averages {
			return m, errors.New("a file has no moving averages, want a checkpoint's folder")
		}
		return m, m.addFile(ctx, at, name)
	}
	step, one := stepOf(name)
	if err != nil || !one {
		at = from
	}
	place, err := OpenPlace(ctx, at)
	if err != nil {
		return m, err
	}
	m.close = append(m.close, place.Close)
	all, err := ListSaved(ctx, place)
	if err != nil {
		return m, err
	}
	all = slices.DeleteFunc(all, func(s Saved) bool { return !s.Complete() || one && s.Steps != step })
	if len(all) == 0 {
		if there, err := m.addFolder(ctx, place); there && !averages || err != nil {
			return m, err
		}
		return m, fmt.Errorf("checkpoint: %s: got no complete checkpoint there, want a folder step-NNNNNNNN with %s, a place of such folders, a file .safetensors, or a folder with %s or %s", from, ManifestFile, ModelFile, IndexFile)
	}
	x := all[len(all)-1]
	m.from = Join(at, StepFolder(x.Steps))
	if err := m.addStep(ctx, place, &x); err != nil {
		if errors.Is(err, ErrDamaged) && len(all) > 1 {
			err = fmt.Errorf("%w; an older checkpoint is %s", err, Join(at, StepFolder(all[len(all)-2].Steps)))
		}
		return m, err
	}
	return m, nil
}

// addFile adds a file of safetensors, or those that an index names.
func (m *model) addFile(ctx context.Context, at, name string) error {
	if !strings.HasSuffix(name, indexEnding) {
		f, err := OpenURI(ctx, m.from)
		if err != nil {
			return err
		}
		m.close = append(m.close, f.Close)
		m.summed = f.HasChecksums()
		if err := f.Verify(); err != nil {
			return err
		}
		return m.addStore(f)
	}
	place, err := OpenPlace(ctx, at)
	if err != nil {
		return err
	}
	m.close = append(m.close, place.Close)
	return m.addIndex(ctx, place, name)
}

// addStep adds what a checkpoint holds: the store's values, or those that the workers updated, and
// the mean of all devices' statistics.
func (m *model) addStep(ctx context.Context, place Place, x *Saved) error {
	var head struct {
		Steps uint64 `json:"steps"`
		Manifest
	}
	manifest, err := x.ReadManifest(ctx, place, &head)
	if err != nil {
		return err
	}
	if head.Steps != x.Steps {
		return fmt.Errorf("checkpoint: %s: %w", x.Name(ManifestFile), damaged("it is of step %d, want %d", head.Steps, x.Steps))
	}
	if err := x.Verify(ctx, place, manifest); err != nil {
		return err
	}
	m.summed = manifest.Checksum != ""
	open := func(name string) (*File, error) {
		f, err := OpenIn(ctx, place, x.Name(name))
		if err == nil {
			m.close = append(m.close, f.Close)
		}
		return f, err
	}
	store, err := open(StoreFile)
	if err != nil {
		return err
	}
	if err := m.addStore(store); err != nil {
		return err
	}
	m.steps = x.Steps
	var workers []*File
	for _, name := range workerFiles(x, manifest) {
		f, err := open(name)
		if err != nil {
			return err
		}
		m.addUpdated(f)
		workers = append(workers, f)
	}
	m.addStatistics(workers)
	if m.averages {
		return m.takeAverages(workers)
	}
	return nil
}

// workerFiles are the names of the workers' files of a checkpoint. A manifest without checksums
// does not name them all; then they are those that lie there.
func workerFiles(x *Saved, manifest Manifest) (names []string) {
	var all []string
	for _, f := range manifest.Files {
		all = append(all, f.Name)
	}
	if manifest.Checksum == "" {
		for _, name := range x.Files {
			all = append(all, path.Base(name))
		}
	}
	for _, name := range all {
		rank := 0
		if _, err := fmt.Sscanf(name, "worker-%d.safetensors", &rank); err == nil && name == WorkerFile(rank) {
			names = append(names, name)
		}
	}
	return names
}

// takeAverages takes the moving averages of the first worker's file in place of the parameters.
func (m *model) takeAverages(workers []*File) error {
	for _, f := range workers {
		there := false
		for _, info := range f.infos {
			if name, ok := strings.CutPrefix(info.Name, OwnAverage); ok {
				m.add(name, f, info)
				there = true
			}
		}
		if there {
			return nil
		}
	}
	return errors.New("the checkpoint has no moving averages, want one of a run with worker.FitConfig.EMA (cifar10 --ema)")
}

// addStore adds the keys of a file of kvstore's, or all tensors of any other file.
func (m *model) addStore(f *File) error {
	list, ours := f.metadata[StoreKeys]
	if !ours {
		for _, info := range f.infos {
			m.add(info.Name, f, info)
		}
		return nil
	}
	var keys []struct {
		Name    string `json:"name"`
		Form    string `json:"form"`
		Average bool   `json:"average"`
		Round   uint64 `json:"round"`
	}
	if err := json.Unmarshal([]byte(list), &keys); err != nil {
		return fmt.Errorf("checkpoint: %s: %s in the metadata: %w", f.name, StoreKeys, err)
	}
	m.flat, m.ours = !f.summed, true
	for _, k := range keys {
		if strings.HasPrefix(k.Name, internalPrefix) {
			continue
		}
		if k.Form == "open" {
			m.leftOut = append(m.leftOut, k.Name)
			continue
		}
		info, err := f.Tensor(k.Name)
		if err != nil {
			return err
		}
		name := k.Name
		if k.Average && m.flat {
			name = strings.TrimPrefix(name, oldState)
		}
		if !k.Average {
			m.steps = max(m.steps, k.Round)
		}
		m.add(name, f, info)
	}
	return nil
}

// add adds a tensor of a file under a name.
func (m *model) add(name string, f *File, info Info) {
	m.arrays[name] = &modelArray{info.Shape, func(dst []float32) error { return f.ReadFloat32s(info.Name, dst) }}
}

// addUpdated takes the parameters that a worker updates itself: all have the same.
func (m *model) addUpdated(f *File) {
	if _, local := f.byName[OwnRound]; local {
		return
	}
	for _, info := range f.infos {
		if name, ok := strings.CutPrefix(info.Name, OwnParam); ok {
			m.add(name, f, info)
		}
	}
}

// addStatistics takes the mean over all devices of all workers, as the workers do at the end of an
// epoch.
func (m *model) addStatistics(workers []*File) {
	type held struct {
		f    *File
		name string
	}
	all := map[string][]held{}
	shapes := map[string][]int{}
	for _, f := range workers {
		for _, info := range f.infos {
			device, name, ok := strings.Cut(info.Name, "/")
			var d int
			if _, err := fmt.Sscanf(device, ownDevice+"%d", &d); !ok || err != nil || info.Name != OwnState(d, name) {
				continue
			}
			all[name] = append(all[name], held{f, info.Name})
			shapes[name] = info.Shape
		}
	}
	for name, from := range all {
		m.arrays[name] = &modelArray{shapes[name], func(dst []float32) error {
			sum, one := make([]float64, len(dst)), make([]float32, len(dst))
			for _, x := range from {
				if err := x.f.ReadFloat32s(x.name, one); err != nil {
					return err
				}
				for i, v := range one {
					sum[i] += float64(v)
				}
			}
			for i := range dst {
				dst[i] = float32(sum[i] / float64(len(from)))
			}
			return nil
		}}
	}
}
