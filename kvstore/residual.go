package kvstore

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Residuals are what a worker's compressed pushes have left out so far (error feedback). They
// belong to one worker, so files of Save do not hold them.
type Residuals struct {
	// Compression is what made them; they mean nothing under another one.
	Compression Compression
	// Values are by key, then by local device; one only where the devices' sum is compressed.
	Values map[string][][]float32
}

// A residualStates reads and replaces the residuals of all keys.
type residualStates struct {
	cfg   *settings
	keys  *keyTable
	rules *roundRules
}

// Residuals returns a copy of what compressed pushes have left out.
func (s *residualStates) Residuals(ctx context.Context) (Residuals, error) {
	now := s.rules.residualCompression()
	r := Residuals{Compression: now, Values: map[string][][]float32{}}
	for _, k := range s.keys.sorted() {
		if err := k.lock(ctx, "residuals"); err != nil {
			return Residuals{}, err
		}
		if k.feedback != nil && k.feedback.using == now {
			for _, values := range k.feedback.residuals {
				r.Values[k.name] = append(r.Values[k.name], slices.Clone(values))
			}
		}
		k.unlock()
	}
	return r, nil
}

// SetResiduals restores residuals. Keys that the residuals do not name get none: they are the state
// of one moment, of all keys.
func (s *residualStates) SetResiduals(ctx context.Context, r Residuals) error {
	now := s.rules.residualCompression()
	if was := r.Compression.withDefaults().forResiduals(); was != now && len(r.Values) > 0 {
		return fmt.Errorf("kvstore: set residuals: %w: got those of compression %v, want %v as set now", ErrConflict, was, now)
	}
	if !now.feedback() && len(r.Values) > 0 {
		return fmt.Errorf("kvstore: set residuals: %w: compression %v has none, got those of %d keys", ErrConflict, now, len(r.Values))
	}
	keys := s.keys.sorted()
	found := 0
	// Everything is checked before anything changes.
	for _, k := range keys {
		devices, ok := r.Values[k.name]
		if !ok {
			continue
		}
		found++
		if !k.dense() || k.rule == wire.RuleAverage {
			return keyError("set residuals", k.name, ErrUnsupported, "its pushes are never compressed")
		}
		if len(devices) > 1 && !s.cfg.eachDevice {
			return keyError("set residuals", k.name, ErrConflict, "got those of %d devices, want one: their sum is compressed", len(devices))
		}
		if err := k.checkSizes("set residuals", "device", devices); err != nil {
			return err
		}
		for device, values := range devices {
			if n := norm(values); !(n <= math.MaxFloat64) {
				return keyError("set residuals", k.name, ErrNotFinite, "device %d: a value is NaN or infinite, which would never leave the residual", device)
			}
		}
	}
	if found < len(r.Values) {
		return fmt.Errorf("kvstore: set residuals: %w: %d of %d keys are not initialised here", ErrUnknownKey, len(r.Values)-found, len(r.Values))
	}
	for _, k := range keys {
		if err := k.lock(ctx, "set residuals"); err != nil {
			return err
		}
		k.dropResiduals()
		if devices := r.Values[k.name]; len(devices) > 0 {
			f := k.residuals()
			f.using = now
			for _, values := range devices {
				f.residuals = append(f.residuals, slices.Clone(values))
			}
		}
		k.unlock()
	}
	return nil
}
