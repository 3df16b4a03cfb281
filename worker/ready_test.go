package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// refusingStore fails every exchange.
type refusingStore struct {
	err error
}

func (s refusingStore) PushPull(context.Context, string, [][]float32, [][]float32) error {
	return s.err
}

// A gradient that cannot be handed in, since the exchange of the last step has failed, is an error
// of its step: it would count nowhere.
func TestAGradientThatIsNotHandedInIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grads := [][][]float32{{make([]float32, 3)}}
		refused := errors.New("refused")
		trainer := &Trainer{devices: new(devices), final: newFinalGradients(1, 1)}
		trainer.exchange = newExchange(t.Context(), refusingStore{err: refused}, []string{"w"}, grads, grads, func(int) error { return nil }, nil)
		defer trainer.exchange.close()
		trainer.exchange.submit(0)
		synctest.Wait()
		if err := trainer.gradientReady(t.Context(), 0, closing); !errors.Is(err, refused) || trainer.final.phase != computing {
			t.Errorf("got error %v, handed in: %v; want %v", err, trainer.final.phase == delivering, refused)
		}
	})
}
