package main

import (
	"testing"

	"github.com/paragon-train/paragon/internal/testing/metricstest"
)

func TestLearnsTheTruth(t *testing.T) {
	for _, store := range []string{"local", "dist_sync", "dist_async"} {
		var worst float32
		var err error
		metricstest.WantSteps(t, metricstest.Printed(t, func() { worst, err = train(t.Context(), store, 3) }), 3, "loss")
		if err != nil || worst > 0.01 {
			t.Errorf("store %s: farthest weight from the truth: got %v and error %v, want at most 0.01", store, worst, err)
		}
	}
	if _, err := train(t.Context(), "elsewhere", 1); err == nil {
		t.Error("store elsewhere: got no error")
	}
}
