package tune

import (
	"slices"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// A storage is the room that the checkpoints of a study take.
type storage struct {
	// bytes is the size of all checkpoints.
	bytes int64
	// stale are those from before an exploit: no trial has them any more, and they are to be
	// removed once no attempt goes on from them.
	stale []checkpoints.Saved
}

// outdate takes the checkpoints of a trial, which it no longer has.
func (s *storage) outdate(t *Trial) {
	for _, c := range t.Checkpoints {
		s.stale = append(s.stale, c.saved(t.Number))
	}
}

// remove takes note that a checkpoint is gone.
func (s *storage) remove(name checkpoints.Name, bytes int64) {
	s.stale = slices.DeleteFunc(s.stale, func(c checkpoints.Saved) bool { return c.Name == name })
	s.bytes -= bytes
}
