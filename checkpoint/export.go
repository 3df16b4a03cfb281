package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// An Exported describes what Export wrote.
type Exported struct {
	// From is the file, or the checkpoint's folder.
	From string
	// Steps is how many were taken; 0: not known.
	Steps   uint64
	Tensors int
	Bytes   int64
	// Verified says that the source had checksums.
	Verified bool
	// Flat says that the source, of an older version, had no shapes: a convolution's weight is
	// one long row.
	Flat bool
	// LeftOut are keys left out: open vocabularies, which PyTorch does not have.
	LeftOut []string
}

// Export writes a model's state dict as a safetensors file that PyTorch loads as it is:
//
//	model.load_state_dict(safetensors.torch.load_file("model.safetensors"))
//
// It holds the parameters and batch normalisation's running statistics under their own names, which
// are PyTorch's if the model's layers have PyTorch's names (nn.ResNet18 and its relatives have
// those of torchvision), with PyTorch's layouts: a convolution's weight is (out, in, height,
// width), a linear layer's (out, in), a table of embeddings (rows, length). num_batches_tracked is
// the number of steps. The optimizer's state is left out.
//
// from is a job's place of checkpoints, of which Export uses the newest; one checkpoint's folder in
// it; or a file of kvstore's Save. It is verified first. If workers update the parameters Export
// uses theirs, else the store's; statistics are the mean over all devices of the workers whose
// files exist.
func Export(ctx context.Context, from, to string) (*Exported, error) {
	return export(ctx, from, to, false)
}

// ExportAverages is Export with the moving averages of the parameters (worker.FitConfig.EMA) in
// their place.
func ExportAverages(ctx context.Context, from, to string) (*Exported, error) {
	return export(ctx, from, to, true)
}

// export writes the model of a checkpoint; averages says whose values are written, those of the
// training or their averages.
func export(ctx context.Context, from, to string, averages bool) (_ *Exported, err error) {
	m, err := openAs(ctx, from, averages)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: export %s: %w", from, err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	e := &Exported{From: m.from, Steps: m.steps, Verified: m.summed, Flat: m.flat, LeftOut: m.leftOut}
	var tensors []Tensor
	for _, name := range m.names() {
		a := m.arrays[name]
		n, err := elements(a.shape)
		if err != nil {
			return nil, fmt.Errorf("checkpoint: export %s: %s: %w", m.from, shown.Name(name), err)
		}
		// Shapes were checked against the file's size, so that n is no more than the file has.
		values := make([]float32, n)
		if err := a.read(values); err != nil {
			return nil, fmt.Errorf("checkpoint: export %s: %w", m.from, err)
		}
		tensors = append(tensors, Float32s(name, a.shape, values))
		e.Bytes += 4 * n
		if layer, ok := strings.CutSuffix(name, runningMean); ok && m.steps > 0 && m.arrays[layer+batches] == nil {
			tensors = append(tensors, Int64s(layer+batches, nil, []int64{int64(m.steps)}))
			e.Bytes += 8
		}
	}
	if e.Tensors = len(tensors); e.Tensors == 0 {
		return nil, fmt.Errorf("checkpoint: export %s: got no parameters there", m.from)
	}
	// PyTorch's library marks its own files so.
	return e, SaveURI(ctx, to, map[string]string{"format": "pt"}, tensors)
}

// What PyTorch calls a batch normalisation's statistics.
const (
	runningMean = ".running_mean"
	batches     = ".num_batches_tracked"
)
