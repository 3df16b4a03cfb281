//go:build !nobuckets

package main

import "testing"

// The program has the buckets: a checkpoint is written into one, and the run goes on from it.
func TestCheckpointsAreInABucket(t *testing.T) {
	flags := []string{"--out", t.TempDir(), "--checkpoint-dir", "mem://in-a-bucket/run", "--checkpoint-steps", "1", "--epochs", "1"}
	if err := cifar10(t, append(flags, "--max-steps", "1")...); err != nil {
		t.Fatal(err)
	}
	if err := cifar10(t, append(flags, "--resume")...); err != nil {
		t.Errorf("resume: %v", err)
	}
}
