package ctl

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A job that has just begun is asked again until it can answer; any other refusal is final.
func TestAskLaterAsksAgainWhileItIsNotYetTime(t *testing.T) {
	later, final := fmt.Errorf("%w: launch has not reported yet", control.ErrLater), errors.New("refused: too many")
	for name, c := range map[string]struct {
		answers []error
		asked   int
		want    error
	}{
		"at once":       {[]error{nil}, 1, nil},
		"a little late": {[]error{later, later, nil}, 3, nil},
		"final":         {[]error{later, final, nil}, 2, final},
		"never":         {[]error{later}, 7, later},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				err := askLater(t.Context(), time.Second, func() error {
					asked++
					return c.answers[min(asked, len(c.answers))-1]
				})
				if asked != c.asked || !errors.Is(err, c.want) {
					t.Errorf("asked %d times, got %v, want %d and %v", asked, err, c.asked, c.want)
				}
			})
		})
	}
}
