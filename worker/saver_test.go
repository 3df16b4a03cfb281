package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
)

// A step's wait for new values is a wait, also where a checkpoint needs them: it is not counted a
// second time as the time of the checkpoint.
func TestACheckpointsWaitForValuesIsNotItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the exchange is broken")
		s := newSaver(CheckpointConfig{Dir: "checkpoints", EverySteps: 1}, &checkpointFolder{dir: "checkpoints"}, DataInfo{}, saverEnv{
			span:      func(trace.Kind) func() { return func() { time.Sleep(time.Second) } },
			anyFailed: func(context.Context, bool) (bool, error) { return false, nil },
			flush:     func(context.Context) error { time.Sleep(time.Minute); return broken },
		})
		if err := s.save(t.Context(), position{}); !errors.Is(err, broken) {
			t.Errorf("got error %v, want that of the exchange", err)
		}
		if s.spent != time.Second {
			t.Errorf("the checkpoint took %v, want the 1s besides the wait", s.spent)
		}
	})
}
