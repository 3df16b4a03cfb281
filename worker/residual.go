package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
)

// A worker's file also has the residuals of its compressed pushes: tensors residual/deviceD/KEY,
// where device 0 stands for all if their sum is compressed, and in the metadata their compression,
// as JSON.

const metaCompression = "paragon.compression"

func residualName(device int, key string) string {
	return fmt.Sprintf("residual/device%d/%s", device, key)
}

// residuals returns them as a checkpoint holds them, and their compression; none: "".
func (t *Trainer) residuals(ctx context.Context) (tensors []checkpoint.Tensor, compression string, err error) {
	left, err := t.cfg.Store.Residuals(ctx)
	if err != nil || len(left.Values) == 0 {
		return nil, "", err
	}
	text, err := json.Marshal(left.Compression)
	if err != nil {
		return nil, "", err
	}
	for i, key := range t.keys {
		for device, values := range left.Values[key] {
			tensors = append(tensors, checkpoint.Float32s(residualName(device, key), t.cfg.Programs[0].Params()[i].Shape, values))
		}
	}
	return tensors, string(text), nil
}

// loadResiduals puts back what the worker's own file has of them, after the store was loaded. Those
// of another compression than this run's, or that are not finite, are left alone: its first push
// begins with none.
func (t *Trainer) loadResiduals(ctx context.Context, place checkpoint.Place, name string) (err error) {
	file, err := checkpoint.OpenIn(ctx, place, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text := file.Metadata()[metaCompression]
	if text == "" {
		return nil
	}
	left := kvstore.Residuals{Values: map[string][][]float32{}}
	if err := json.Unmarshal([]byte(text), &left.Compression); err != nil {
		return fmt.Errorf("%s: %s in the metadata: %w", name, metaCompression, err)
	}
	for i, key := range t.keys {
		for device := 0; ; device++ {
			tensor := residualName(device, key)
			if _, err := file.Tensor(tensor); errors.Is(err, checkpoint.ErrNoTensor) {
				break
			}
			values := make([]float32, len(t.cfg.Programs[0].Params()[i].Value))
			if err := file.ReadFloat32s(tensor, values); err != nil {
				return err
			}
			left.Values[key] = append(left.Values[key], values)
		}
	}
	err = t.cfg.Store.SetResiduals(ctx, left)
	if errors.Is(err, kvstore.ErrConflict) || errors.Is(err, kvstore.ErrNotFinite) {
		t.cfg.Logger.Warn("residuals dropped: those of the checkpoint are of another compression, or not finite", "file", name, "error", err)
		return nil
	}
	return err
}
