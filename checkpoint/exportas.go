package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/checkpoint/models"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/shown"
)

// ExportConfig says what ExportAs writes. Its zero value is what Export writes.
type ExportConfig struct {
	// Averages takes the moving averages of the parameters (worker.FitConfig.EMA) in their place.
	Averages bool
	// Format is the layout of the file for nn.GPT, nn.Llama and nn.ViT: "hf", that of Hugging
	// Face's transformers; "nanogpt", "meta", "torchvision" or "timm". "" has the program's own
	// names, which are nanoGPT's, Hugging Face's and torchvision's. Package checkpoint/models has
	// the tables.
	Format string
	// Config is a config.json of the model, a file or a folder with one; "": the one beside the
	// checkpoints, which WriteConfig writes. A folder of Hugging Face's has one, and Meta's layout
	// depends on the size of a head, which is not in the weights.
	Config string
}

// ExportAs is Export in the layout of another framework. to is a file .safetensors, or, in Hugging
// Face's format, a folder, which gets model.safetensors and config.json: from_pretrained loads it.
func ExportAs(ctx context.Context, from, to string, cfg ExportConfig) (_ *Exported, err error) {
	m, err := openAs(ctx, from, cfg.Averages)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: export %s: %w", from, err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	e := &Exported{From: m.from, Steps: m.steps, Verified: m.summed, Flat: m.flat, LeftOut: m.leftOut}
	fail := func(err error) (*Exported, error) { return nil, fmt.Errorf("checkpoint: export %s: %w", m.from, err) }
	refuse := func(err error) (*Exported, error) { return fail(exitreport.Final(exitreport.Usage, err)) }
	target, err := m.target(ctx, to, cfg)
	if err != nil {
		return refuse(err)
	}
	tensors, err := m.tensors(e, target)
	if err != nil {
		return fail(err)
	}
	if e.Tensors = len(tensors); e.Tensors == 0 {
		return fail(errors.New("got no parameters there"))
	}
	// PyTorch's library marks its own files so.
	metadata := map[string]string{"format": "pt"}
	if target.config == nil {
		return e, SaveURI(ctx, to, metadata, tensors)
	}
	return e, saveFolder(ctx, to, metadata, tensors, target.config)
}

// saveFolder writes a folder as Hugging Face has it. The weights are written last: a folder with
// weights is complete.
func saveFolder(ctx context.Context, to string, metadata map[string]string, tensors []Tensor, c models.Config) (err error) {
	if err := WriteConfig(ctx, to, c); err != nil {
		return err
	}
	place, err := OpenPlace(ctx, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	return SaveTo(ctx, place, ModelFile, metadata, tensors)
}

// A target is where an export goes, and how.
type target struct {
	// layout is nil for the program's own.
	layout *models.Layout
	// head is the number of rows of a head, where the layout needs it.
	head int
	// config is written beside the file; nil: none.
	config models.Config
}

// target checks what is asked of an export.
func (m *model) target(ctx context.Context, to string, cfg ExportConfig) (t *target, err error) {
	t = &target{}
	isFolder := !strings.HasSuffix(to, extension)
	switch {
	case cfg.Format == "":
		return t, nil
	case m.flat:
		return nil, fmt.Errorf("format %s: an older version wrote the checkpoint, without shapes: resume the job and let it save a new one", shown.Name(cfg.Format))
	}
	known := models.Of(m.names())
	if known == nil {
		return nil, fmt.Errorf("format %s: the parameters are not those of nn.GPT, nn.Llama or nn.ViT, which have formats, but such as %s. Models with PyTorch's names, as nn.ResNet18 and nn.MobileNetV2 have torchvision's, need none", shown.Name(cfg.Format), some(m.names()))
	}
	if t.layout, err = known.Layout(cfg.Format); err != nil {
		return nil, err
	}
	if isFolder && cfg.Format != huggingFace {
		return nil, fmt.Errorf("format %s: got the file %s, want one that ends in %s", cfg.Format, to, extension)
	}
	if !isFolder && !t.layout.NeedsHead() {
		return t, nil
	}
	config, err := m.config(ctx, cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("format %s: the number of heads and more of the model is not in its weights, but in a config.json, which the program writes beside its checkpoints (checkpoint.WriteConfig), or which is named (--config, ExportConfig.Config): %w", cfg.Format, err)
	}
	shapes := map[string][]int{}
	for name, a := range m.arrays {
		shapes[name] = a.shape
	}
	if config.Model() != known.Name {
		return nil, fmt.Errorf("config.json is of %s, want one of %s", config.Model(), known.Name)
	}
	if err := config.Check(shapes); err != nil {
		return nil, fmt.Errorf("config.json is of another model: %w", err)
	}
	if llama, ok := config.(*models.LlamaConfig); ok {
		t.head = llama.HeadSize
	}
	if isFolder {
		t.config = config
	}
	return t, nil
}

const (
	extension   = ".safetensors"
	huggingFace = "hf"
)

// config reads the model's config.json: the one named, or that beside the checkpoint's file or
// folder, or beside all of them.
func (m *model) config(ctx context.Context, named string) (models.Config, error) {
	if named != "" {
		return ReadConfig(ctx, named)
	}
	at := strings.TrimRightFunc(m.from, isSeparator)
	if place, name, err := SplitURI(at); err == nil {
		if _, step := stepOf(name); step || isFile(m.from, name) {
			at = place
		}
	}
	return ReadConfig(ctx, at)
}

// tensors are what an export writes.
func (m *model) tensors(e *Exported, to *target) (list []Tensor, err error) {
	for _, name := range m.names() {
		a := m.arrays[name]
		n, err := elements(a.shape)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shown.Name(name), err)
		}
		// Shapes were checked against the file's size, so that n is no more than the file has.
		values := make([]float32, n)
		if err := a.read(values); err != nil {
			return nil, err
		}
		parts, err := to.parts(name, a.shape, values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shown.Name(name), err)
		}
		list = append(list, parts...)
		if layer, ok := strings.CutSuffix(name, weightEnding); ok && to.layout != nil && m.arrays[layer+biasEnding] == nil {
			list = append(list, to.zeros(layer, a.shape)...)
		}
		if layer, ok := strings.CutSuffix(name, runningMean); ok && m.steps > 0 && m.arrays[layer+batches] == nil {
			list = append(list, Int64s(layer+batches, nil, []int64{int64(m.steps)}))
		}
	}
	for _, t := range list {
		n, err := t.bytes()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shown.Name(t.Name()), err)
		}
		e.Bytes += n
	}
	return list, nil
}

const (
	weightEnding = ".weight"
	biasEnding   = ".bias"
)

// parts are the tensors that a parameter becomes. What the layout does not have, such as another
// head, keeps its name.
func (to *target) parts(name string, shape []int, values []float32) ([]Tensor, error) {
	if to.layout == nil {
		return []Tensor{Float32s(name, shape, values)}, nil
	}
	there, ok := to.layout.Target(name)
	if !ok {
		return []Tensor{Float32s(name, shape, values)}, nil
	}
	arranged := values
	if there.Form != models.AsIs {
		arranged = make([]float32, len(values))
		if err := there.Form.Write(arranged, values, shape, to.head); err != nil {
			return nil, err
		}
	}
	shape, err := there.Form.Shape(shape)
	if err != nil {
		return nil, err
	}
	n := len(there.Names)
	if n == 1 {
		return []Tensor{Float32s(there.Names[0], shape, arranged)}, nil
	}
	if len(shape) == 0 || shape[0]%n != 0 {
		return nil, fmt.Errorf("got shape %v, want rows for %d tensors, as many for each", shape, n)
	}
	shape = slices.Clone(shape)
	shape[0] /= n
	var list []Tensor
	for i, part := range there.Names {
		k := len(arranged) / n
		list = append(list, Float32s(part, shape, arranged[i*k:(i+1)*k]))
	}
	return list, nil
}

// zeros is the bias of a layer that has none, where Hugging Face's model has one: of a GPT with
// NoBias.
func (to *target) zeros(layer string, shape []int) []Tensor {
	there, ok := to.layout.Target(layer + biasEnding)
	if !ok || to.layout.Name != huggingFace || len(shape) == 0 {
		return nil
	}
	return []Tensor{Float32s(there.Names[0], shape[:1], make([]float32, shape[0]))}
}

// maxConfig bounds what is read of a config.json. Those of models with many labels are the longest.
const maxConfig = 16 << 20

// ReadConfig reads a config.json of Hugging Face's, by its own URI or by that of its folder. What
// package nn's models cannot do is an error that names it.
func ReadConfig(ctx context.Context, from string) (_ models.Config, err error) {
	at, name := strings.TrimRightFunc(from, isSeparator), ConfigFile
	if strings.HasSuffix(at, ".json") {
		if at, name, err = SplitURI(at); err != nil {
			return nil, err
		}
	}
	place, err := OpenPlace(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	text, err := readText(ctx, place, name, maxConfig)
	if err != nil {
		return nil, finalImport(fmt.Errorf("checkpoint: read %s: %w", Join(at, name), err))
	}
	c, err := models.ReadConfig(text)
	if err != nil {
		return nil, exitreport.Final(exitreport.Usage, fmt.Errorf("checkpoint: read %s: %w", Join(at, name), err))
	}
	return c, nil
}

// WriteConfig writes a model's config.json into a place, such as that of a run's checkpoints, where
// ExportAs finds it.
func WriteConfig(ctx context.Context, at string, c models.Config) (err error) {
	text, err := c.Text()
	if err != nil {
		return fmt.Errorf("checkpoint: write %s: %w", ConfigFile, err)
	}
	place, err := OpenPlace(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	return place.Write(ctx, ConfigFile, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
