package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/photos"
)

// Both read every image in turns, and the table has a row for each with their ratio.
func TestRatesStandBesideThePeers(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made")
	if err := photos.Make(folder, photos.Config{Images: 24, Classes: 2, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	peer := filepath.Join(t.TempDir(), "peer.sh")
	if err := os.WriteFile(peer, []byte("echo ready\nwhile read line; do echo 24 0.5 0.4; done\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--folders", folder, "--python", "/bin/sh", "--script", peer, "--size", "16", "--batch", "5", "--turns", "2"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"note: 2 readers, batches of 5, 16×16 pixels, 2 passes each", "BenchmarkRead/folder=made/by=paragon 1 ",
		"by=pytorch-float32 1 48 images/s 60 images/cpu-s ", "by=pytorch-uint8 1 48 images/s", "largest-ratio"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
}

// A peer that reads another number of images, or fails, ends the run with what it said.
func TestPeersThatFailAreNamed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made")
	if err := photos.Make(folder, photos.Config{Images: 4, Classes: 2, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"echo ready; read line; echo 3 0.5 0.4":        "got 3 images, want 4",
		"echo ready; read line; echo many":             `got "many", want images`,
		"echo no torch here >&2; exit 1":               "no torch here",
		"echo ready; read line; echo late >&2; exit 1": "late",
	} {
		peer := filepath.Join(t.TempDir(), "peer.sh")
		if err := os.WriteFile(peer, []byte(text+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := run(t.Context(), []string{"--folders", folder, "--python", "/bin/sh", "--script", peer, "--size", "16", "--turns", "1"}, &out)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
		}
	}
}

func TestFlagsThatMakeNoSenseAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"--folders: got none":               nil,
		"--readers: got 0, want at least 1": {"--folders", "x", "--readers", "0"},
		"--turns: got -1, want at least 1":  {"--folders", "x", "--turns", "-1"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}
