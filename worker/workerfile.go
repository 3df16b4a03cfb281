package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
)

// A worker's file in a checkpoint has the state that the servers do not have: the running
// statistics of each device, the residuals of compressed pushes, the loss scale, and, with
// UpdateOnWorker or local steps, the parameters and the optimizer's state.

// copyWorkerState returns a copy of that state.
func (t *Trainer) copyWorkerState(ctx context.Context, steps uint64, loss metrics.Mean) (meta map[string]string, tensors []checkpoint.Tensor, err error) {
	tensors, compression, err := t.residuals(ctx)
	if err != nil {
		return nil, nil, err
	}
	meta = map[string]string{metaFormat: fileFormat, metaStep: fmt.Sprint(steps), metaRank: fmt.Sprint(t.cfg.Store.Rank())}
	if compression != "" {
		meta[metaCompression] = compression
	}
	if loss.Weight > 0 {
		meta[metaEpochLoss] = fmt.Sprintf("%x %x", loss.Sum, loss.Weight)
	}
	if t.local != nil {
		meta[metaRoundWeight] = strconv.FormatFloat(t.local.amount.weight, 'f', -1, 64)
	}
	if scales := t.lossScales(); scales != "" {
		meta[metaLossScale] = scales
	}
	for _, own := range t.workerTensors() {
		tensors = append(tensors, checkpoint.Float32s(own.name, own.shape, slices.Clone(own.values)))
	}
	return meta, tensors, nil
}

// The metadata of a worker's file.
const (
	metaFormat = "format"
	metaStep   = "paragon.step"
	metaRank   = "paragon.rank"
	fileFormat = "paragon-worker-2"
	// oldFormat has no checksums, step and rank.
	oldFormat = "paragon-worker-1"
)

// workerFile is the name of a worker's file within a checkpoint's place.
func workerFile(steps uint64, rank int) string {
	return path.Join(checkpoint.StepFolder(steps), checkpoint.WorkerFile(rank))
}

// verifyWorkerFile checks that a file belongs to that rank and step, and is undamaged.
func verifyWorkerFile(file *checkpoint.File, steps uint64, rank int) error {
	meta := file.Metadata()
	if meta[metaFormat] == oldFormat && !file.HasChecksums() {
		return nil
	}
	if meta[metaFormat] != fileFormat || !file.HasChecksums() || meta[metaStep] != fmt.Sprint(steps) || meta[metaRank] != fmt.Sprint(rank) {
		return fmt.Errorf("%s: %w: got format %s, step %s, rank %s, checksums %v; want %s of step %d and rank %d with checksums",
			workerFile(steps, rank), checkpoint.ErrDamaged, shown.Name(meta[metaFormat]), shown.Name(meta[metaStep]), shown.Name(meta[metaRank]), file.HasChecksums(), fileFormat, steps, rank)
	}
	return file.Verify()
}

// loadWorkerFile verifies all of a rank's file, and then reads it into the programs; loadResiduals
// reads the residuals. loss is that of the epoch so far.
func (t *Trainer) loadWorkerFile(ctx context.Context, place checkpoint.Place, steps uint64, rank int) (loss metrics.Mean, err error) {
	name := workerFile(steps, rank)
	file, err := checkpoint.OpenIn(ctx, place, name)
	if err != nil {
		return loss, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := verifyWorkerFile(file, steps, rank); err != nil {
		return loss, err
	}
	for _, own := range t.workerTensors() {
		if info, err := file.Tensor(own.name); err == nil && !slices.Equal(info.Shape, own.shape) {
			return loss, noResume("%s: tensor %q has shape %v, and this run's model has %v: resume with the settings of the model that wrote it", name, own.name, info.Shape, own.shape)
		}
		err := file.ReadFloat32s(own.name, own.values)
		if errors.Is(err, checkpoint.ErrNoTensor) && strings.HasPrefix(own.name, checkpoint.OwnAverage) {
			return loss, noResume("%s: a run without FitConfig.EMA wrote it, and this run has it: resume without it, or start a new run with ImportModel", name)
		}
		if errors.Is(err, checkpoint.ErrNoTensor) {
			err = fmt.Errorf("%w; %s", err, otherFreeze)
		}
		if err != nil {
			return loss, err
		}
	}
	if t.local != nil {
		if err := t.local.loaded(file.Metadata()[metaRoundWeight]); err != nil {
			return loss, fmt.Errorf("%s: %w", name, err)
		}
	}
	meta := file.Metadata()
	if text := meta[metaEpochLoss]; text != "" {
		if _, err := fmt.Sscanf(text, "%g %g", &loss.Sum, &loss.Weight); err != nil || !(loss.Weight > 0) {
			return loss, noResume("%s: %s in the metadata: got %s, want a sum and a weight above 0", name, metaEpochLoss, shown.Name(text))
		}
	}
	return loss, t.setLossScales(name, meta[metaLossScale])
}

// metaEpochLoss has the sum of the losses of this worker's examples in the epoch, and their weight,
// in hexadecimal so that no bit is lost; none at the start of an epoch.
const metaEpochLoss = "paragon.epoch_loss"

// metaLossScale has the loss scale of each device, as a list in JSON; null for one that has none.
const metaLossScale = "paragon.loss_scale"

// lossScales is that list; "" if no device has one. Its numbers are finite, so it can be encoded.
func (t *Trainer) lossScales() string {
	list, any := make([]*nn.LossScale, len(t.cfg.Programs)), false
	for d, program := range t.cfg.Programs {
		if s, scales := program.LossScale(); scales {
			list[d], any = &s, true
		}
	}
	if !any {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("worker: loss scales: %v", err))
	}
	return string(text)
}

// setLossScales gives them back to the devices, of which there may be other ones now: those beyond
// the list get its last one.
func (t *Trainer) setLossScales(name, text string) error {
	var list []*nn.LossScale
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return noResume("%s: %s in the metadata: %w", name, metaLossScale, err)
	}
	for d, program := range t.cfg.Programs {
		if len(list) == 0 || list[min(d, len(list)-1)] == nil {
			continue
		}
		if err := program.SetLossScale(*list[min(d, len(list)-1)]); err != nil {
			return noResume("%s: %s in the metadata: device %d: %w", name, metaLossScale, d, err)
		}
	}
	return nil
}

// workerTensors lists the arrays of the worker's file.
func (t *Trainer) workerTensors() []workerTensor {
	var tensors []workerTensor
	for d, program := range t.cfg.Programs {
		for _, s := range program.State() {
			tensors = append(tensors, workerTensor{checkpoint.OwnState(d, s.Name), s.Shape, s.Value})
		}
	}
	if t.averages != nil {
		tensors = append(tensors, t.averages.tensors(t.devices.params())...)
	}
	if t.update == nil {
		return tensors
	}
	if t.local != nil {
		tensors = append(tensors, t.local.tensors()...)
	}
	for i, p := range t.cfg.Programs[0].Params() {
		tensors = append(tensors, workerTensor{checkpoint.OwnParam + p.Name, p.Shape, p.Value})
		for _, slot := range t.update.states[i].Slots {
			tensors = append(tensors, workerTensor{"optim/" + slot.Name + "/" + p.Name, p.Shape, slot.Values})
		}
	}
	return tensors
}

// midRound reports whether this worker is in the middle of a round of local steps.
func (t *Trainer) midRound() bool { return t.local != nil && t.local.done > 0 }

// pullAll brings the store's values to all devices after a load. Where this worker applies updates,
// its own file brought the values, and with local steps the store has the anchors.
func (t *Trainer) pullAll(ctx context.Context) error {
	for i, key := range t.keys {
		outs := t.exchange.outs[i]
		if t.update != nil {
			for _, program := range t.cfg.Programs[1:] {
				copy(program.Params()[i].Value, t.cfg.Programs[0].Params()[i].Value)
			}
			if t.local == nil {
				continue
			}
			outs = t.local.anchors[i : i+1]
		}
		if err := t.cfg.Store.Pull(ctx, key, outs...); err != nil {
			return err
		}
	}
	return t.pullFrozen(ctx)
}
