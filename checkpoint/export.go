package checkpoint

import "context"

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
	return ExportAs(ctx, from, to, ExportConfig{})
}

// ExportAverages is Export with the moving averages of the parameters (worker.FitConfig.EMA) in
// their place.
func ExportAverages(ctx context.Context, from, to string) (*Exported, error) {
	return ExportAs(ctx, from, to, ExportConfig{Averages: true})
}

// What PyTorch calls a batch normalisation's statistics.
const (
	runningMean = ".running_mean"
	batches     = ".num_batches_tracked"
)
