package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The next run takes a set that is complete as it is.
func TestASetThatCouldNotBeMadeIsNotComplete(t *testing.T) {
	dir := t.TempDir()
	if _, err := makeSet(config{dir: dir, images: 4, classes: 2, largest: 40, photos: filepath.Join(dir, "nothing")}); err == nil {
		t.Fatal("photographs that are not there: got no error")
	}
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		t.Error("the set is complete, want it to be made again")
	}
}
